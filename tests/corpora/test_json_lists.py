"""Lists of JSON item by item: what `json.loads` of the whole file gives, and where what is wrong stands."""

import json
import random

import pytest

from data_pipelines.corpora import json_lists
from data_pipelines.corpora.json_lists import read_list
from data_pipelines.errors import DataError

STRINGS = ["", "a", 'say "so"', "[{,}]:", "back\\slash", "\\", "line\nend", "中国 😀", "x" * 70, '\\"]']


def value_of(draw, depth=0):
    """A random value of JSON."""
    kind = draw.randrange(4 if depth > 3 else 6)
    if kind == 4:
        return [value_of(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 5:
        return {draw.choice(STRINGS) + str(i): value_of(draw, depth + 1) for i in range(draw.randrange(4))}
    return (draw.choice(STRINGS), draw.randrange(-9999, 9999), draw.choice([True, False, None]), draw.random() * 1e-9)[
        kind
    ]


@pytest.mark.parametrize("characters", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize("indent", [None, 2])
def test_items_are_those_of_the_whole(characters, indent, tmp_path, monkeypatch):
    monkeypatch.setattr(json_lists, "CHARACTERS", characters)
    draw, path = random.Random(0), tmp_path / "a.json"
    for number in range(30):
        items = [value_of(draw) for _ in range(draw.randrange(5))]
        others = {f"{each}.": value_of(draw) for each in draw.sample(STRINGS, 2)}
        whole = {**others, "data": items, "behind": value_of(draw)}
        for value, key in ((items, None), (whole, "data"), ({"data": items}, "data")):
            ascii_only = bool(number % 2)
            text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
            path.write_text(text + "\n" * (number % 3), "utf-8")
            assert list(read_list(str(path), key)) == items


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: not JSON (Expecting a list"),
        ("{}", "line 1: not JSON (Expecting a list"),
        ("[1,\n 2", "line 2: not JSON (Expecting ',' delimiter, column 3)"),
        ("[1,\n {]}, 3]", "line 2: not JSON (Expecting property name enclosed in double quotes, column 3)"),
        ('["a" "b"]', "line 1: not JSON (Expecting ',' delimiter, column 6)"),
        ('[{"a": 1},\n\n  {"a": }]', "line 3: not JSON (Expecting value, column 9)"),
        ('["a', "line 1: not JSON (Unterminated string starting at, column 2)"),
        ("[1, ]", "line 1: not JSON (Expecting value, column 5)"),
        ("[1]\n 2", "line 2: not JSON (Extra data, column 2)"),
        ('["\\ud800"]', "half of a character"),
    ],
)
@pytest.mark.parametrize("characters", [1, 1 << 16])
def test_what_is_wrong_is_named_with_its_line(text, said, characters, tmp_path, monkeypatch):
    monkeypatch.setattr(json_lists, "CHARACTERS", characters)
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(DataError) as raised:
        list(read_list(str(tmp_path / "a.json")))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "top level: expected 'data' (list). Found: ."),
        ("3", "top level: expected 'data' (list). Found: int."),
        ('{"a": 1, "data": {}}', "top level: expected 'data' (list). Found: a, data."),
        ('{"data": [1] "b": 2}', "line 1: not JSON (Expecting ',' delimiter, column 14)"),
        ('{"data": [1], 2}', "line 1: not JSON (Expecting property name enclosed in double quotes, column 15)"),
        ('{"data" [1]}', "line 1: not JSON (Expecting ':' delimiter, column 9)"),
        ('{"data": [1]', "line 1: not JSON (Expecting ',' delimiter, column 13)"),
        ('{"data": [1]} x', "line 1: not JSON (Extra data, column 15)"),
    ],
)
def test_an_object_without_the_list_is_named(text, said, tmp_path):
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(DataError) as raised:
        list(read_list(str(tmp_path / "a.json"), "data"))
    assert said in str(raised.value)
