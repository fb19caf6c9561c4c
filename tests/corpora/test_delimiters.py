"""Tables whose columns are parted by another character than their ending says."""

import json

import pytest

from data_pipelines.corpora import delimiters
from data_pipelines.corpora.choices import read_choices
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import UsageError
from tests.helpers.doctor_clinic import vocabulary_text
from tests.helpers.invocation import invoke

ROWS = [("It rained; all week.", "bad"), ('The "old" lamp', "good"), ("two\nlines", "bad")]


def written(path, delimiter, quoted):
    cells = [("text", "label"), *ROWS]
    if quoted:
        cells = [tuple('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    else:
        cells = [tuple(cell.replace("\n", " ") for cell in row) for row in cells]
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in cells))
    return str(path)


GIVEN = [
    (";", ";"),
    ("semicolon", ";"),
    ("|", "|"),
    ("pipe", "|"),
    ("tab", "\t"),
    ("\\t", "\t"),
    ("comma", ","),
    ("^", "^"),
]


@pytest.mark.parametrize(("name", "character"), GIVEN)
def test_a_table_is_parted_by_the_character_that_is_given(name, character, tmp_path):
    quoted = written(tmp_path / "a.csv", character, True)
    with delimiters.assume(name):
        assert [(row.texts[0], row.label) for row in read_table(quoted, Columns())] == ROWS
    if character != ";":  # which stands in a text
        plain = written(tmp_path / "a.tsv", character, False)
        with delimiters.assume(name):
            found = [(row.texts[0], row.label) for row in read_table(plain, Columns())]
        assert found == [(text.replace("\n", " "), label) for text, label in ROWS]


def test_json_lines_are_read_as_ever_and_the_next_command_as_well(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a;b", "label": "x"}) + "\n")
    with delimiters.assume(";"):
        assert read_table(str(tmp_path / "a.jsonl"), Columns())[0].texts == ("a;b",)
    assert read_table(written(tmp_path / "a.csv", ",", True), Columns())[1].label == "good"


def test_choices_are_parted_too(tmp_path):
    (tmp_path / "exam.csv").write_text('"Which; one?";red;blue;B\n')
    with delimiters.assume(";"):
        (found,) = read_choices(str(tmp_path / "exam.csv"))
    assert (found.question, list(found.choices)) == ("Which; one?", ["red", "blue"])


@pytest.mark.parametrize("name", ["", "ab", "a", "7", '"', "\n", "\\", "'", "中", "\x00"])
def test_what_cannot_part_columns_is_refused(name):
    with (
        pytest.raises(UsageError, match="(?s)--delimiter=.*expected one character that parts columns"),
        delimiters.assume(name),
    ):
        pass


def test_a_header_that_is_parted_otherwise_says_what_helps(tmp_path):
    path = written(tmp_path / "a.csv", ";", True).replace('"', "")
    (tmp_path / "a.csv").write_text("text;label\na;b\n")
    with pytest.raises(
        UsageError, match="parted by semicolons .text;label., which its ending does not say; give --delimiter=semicolon"
    ):
        read_table(path, Columns())
    with pytest.raises(UsageError, match="which --delimiter does not say"), delimiters.assume("|"):
        read_table(path, Columns())


def test_commands_take_the_flag(tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text(vocabulary_text())
    (tmp_path / "train.csv").write_text("text;label\n" + "it rained;x\nthe lamp;y\n" * 4)
    flags = {
        "task": "classify",
        "input_file": tmp_path / "train.csv",
        "vocab_file": tmp_path / "vocab.txt",
        "max_seq_length": 16,
    }
    assert invoke("create_finetuning_data", output_dir=tmp_path / "a", **flags) == 2
    assert "--delimiter=semicolon" in capsys.readouterr().err
    assert invoke("create_finetuning_data", output_dir=tmp_path / "a", delimiter=";", **flags) == 0
    assert json.loads((tmp_path / "a/manifest.json").read_text())["settings"]["label_names"] == ["x", "y"]
