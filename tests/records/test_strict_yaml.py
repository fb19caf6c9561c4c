"""YAML that others wrote: whatever is wrong with it is a DataError with file and line."""

import random

import pytest

from data_pipelines import strict_yaml
from data_pipelines.errors import DataError

WRONG = {
    "bool": ("a: 1\nb: !!bool foo", 2, "cannot be read"),
    "bool of YAML 1.1": ("a: !!bool yes", 1, "cannot be read"),
    "empty int": ("a: !!int ''", 1, "cannot be read"),
    "int that is a float": ("a: !!int 1.5", 1, "cannot be read"),
    "empty float": ("a: !!float ''", 1, "cannot be read"),
    "null with a text": ("a: !!null foo", 1, "cannot be read"),
    "infinite": ("a: 1e999", 1, "cannot be read"),
    "digits": ("a: " + "9" * 5000, 1, "cannot be read"),
    "timestamp": ("a: !!timestamp x", 1, "!!timestamp"),
    "binary": ("a: !!binary x", 1, "!!binary"),
    "set": ("a: !!set {b}", 1, "!!set"),
    "omap": ("\n!!omap [a: 1]", 2, "!!omap"),
    "merge": ("!!merge <<: {a: 1}", 1, "!!merge"),
    "python": ("a: !!python/object/apply:os.system [ls]", 1, "python/object"),
    "own tag": ("a: !foo b", 1, "!foo"),
    "list that is a map": ("a: !!map []", 1, "!!map"),
    "beyond Unicode": ('a: 1\nb: "\\U00110000"', 2, "escape"),
    "far beyond Unicode": ('a: "\\UFFFFFFFF"', 1, "escape"),
    "version": (f"%YAML 1.{'9' * 5000}\n---\na", 1, "too long"),
    "half a character": ('a: "\\ud800"', 1, "half of a character"),
    "half a character in a name": ('a: 1\n"\\udc00": 1', 2, "half of a character"),
    "control character": ("a: 1\nb: \x07", 2, "U+0007"),
    "alias of nothing": ("a: *b", 1, "undefined alias"),
    "alias of itself": ("a: 1\nb: &x [*x]", 2, "holds itself"),
    "many values": ("- a\n" * 11_000 * 2, 20_000, "more than 10,000 values"),
    "laughs": ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{y}: &{y} [{','.join([f'*{x}'] * 10)}]\n" for x, y in zip("abcd", "bcde", strict=True)
    ), 1, "more than 10,000 values"),
    "nested": ("[" * 5000, 1, "nested too deep"),
    "two documents": ("--- a\n--- b", 2, "another document"),
}  # fmt: skip


def read(folder, text):
    path = folder / "plan.yaml"
    path.write_text(text, "utf-8")
    return strict_yaml.read(str(path), {}, "--plan", "See the docs.")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, name):
    text, line, said = WRONG[name]
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'plan.yaml'}, line {line}: ") and said in str(error.value)
    str(error.value).encode()


def test_tags_of_the_core_are_read(tmp_path):
    text = 'a: !!float 1\nb: !!str 1\nc: !!null ~\nd: "\\ud83d\\ude00"\n!!str e: !!seq [!!int 0x10, !!bool true]\n'
    assert read(tmp_path, text)[0] == {"a": 1.0, "b": "1", "c": None, "d": "\N{GRINNING FACE}", "e": [16, True]}


def test_a_value_of_the_environment_that_is_not_utf_8_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BYTES", "\udcff")
    with pytest.raises(DataError, match="line 1: `a`: the value of .* is not UTF-8"):
        read(tmp_path, "a: ${BYTES}")


def test_no_text_of_odd_parts_ends_in_another_error(tmp_path):
    parts = ["!!bool ", "!!int ", "!!float ", "!!null ", "''", "~", "0x", "_", "+", "-", ".", "9", "e", ":", " ", "\n", "- ", "{", "}",
             "[", "]", '"', "\\", "\\u", "d800", "|", ">", "&a ", "*a", "%", "!", "<", "?", "\t", "\ufeff", "\x85"]  # fmt: skip
    draw = random.Random(0)
    for _ in range(1500):
        text = draw.choice(["", "a: ", "- "]) + "".join(draw.choices(parts, k=draw.randint(1, 8)))
        try:
            repr(read(tmp_path, text)).encode()
        except DataError as error:
            assert ", line " in str(error) or "is empty" in str(error)
