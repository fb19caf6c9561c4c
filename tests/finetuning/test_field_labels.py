"""Labels and tags as people spell them, and tables whose columns could mean two things."""

import json

import pytest

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import no_label_warning
from data_pipelines.finetuning.tag_schemes import usual_spelling
from tests.helpers.invocation import invoke
from tests.helpers.samples import SHARED
from xmodels.tasks.tag.read import read_sentences

CASES = SHARED / "cases"
BIO = ["O", "B-LOC", "I-LOC", "B-PER"]


@pytest.mark.parametrize(
    "spelled",
    [
        ["O", "B_LOC", "I_LOC", "B_PER"], ["O", "B:LOC", "I:LOC", "B:PER"], ["O", "B/LOC", "I/LOC", "B/PER"],
        ["O", "LOC-B", "LOC-I", "PER-B"], ["O", "LOC_B", "LOC_I", "PER_B"], ["o", "b-LOC", "i-LOC", "b-PER"],
        ["O", "B.LOC", "I.LOC", "B.PER"], ["O", "B|LOC", "I|LOC", "B|PER"], BIO,
    ],
)  # fmt: skip
def test_tags_of_spans_are_read_however_they_are_spelled(spelled, tmp_path):
    found = usual_spelling(spelled)
    assert [found.get(tag, tag) for tag in spelled] == BIO and bool(found) == (spelled != BIO)
    lines = "".join(f"w{i} {tag}\n" for i, tag in enumerate(spelled))
    (tmp_path / "a.conll").write_text(lines)
    (sentence,) = read_sentences(str(tmp_path / "a.conll"), None, None)
    assert sentence.tags == BIO


@pytest.mark.parametrize(
    "tags",
    [["NN", "VB", "DT"], ["B_X", "NN"], ["B-X", "B_Y"], ["B_X", "b_Y"], ["E_X", "O"], ["O"], ["PER", "LOC", "O"]],
)
def test_other_tags_stay_as_they_are(tags):
    assert usual_spelling(tags) == {}


@pytest.mark.parametrize("tags", [["O", "LOC", "O", "PER"], ["O", "[LOC", "O", "O"], ["O", "LOC-1", "O", "O"]])
def test_a_scheme_that_is_not_read_is_said(tags, tmp_path, capsys):
    (tmp_path / "a.conll").write_text("".join(f"w{i} {tag}\n" for i, tag in enumerate(tags)))
    read_sentences(str(tmp_path / "a.conll"), None, None)
    assert "is of no scheme of spans that is read" in capsys.readouterr().out
    with pytest.raises(DataError, match="line 2: .* is of no scheme of spans"):
        read_sentences(str(tmp_path / "a.conll"), None, None, "refuse")


def test_parts_of_speech_are_read_without_a_word(tmp_path, capsys):
    (tmp_path / "a.conll").write_text("we PRP\nrun VB\n")
    read_sentences(str(tmp_path / "a.conll"), None, None)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("labels", "warns"),
    [
        (["-", "neutral", "entailment"], "'-'"), (["-1", "0", "1", "2"], "'-1'"), (["a", "b", "nan"], "'nan'"), (["-1", "1"], None),
        (["-1", "0", "1"], None), (["0", "1"], None), (["yes", "no"], None),
    ],
)  # fmt: skip
def test_labels_of_rows_without_one_are_doubted(labels, warns):
    found = no_label_warning(labels)
    assert (found is None) if warns is None else found.startswith(f"{warns} looks like 'no label'")


def test_two_usual_names_of_texts_are_asked_about(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("index\tquestion\tsentence\tlabel\n0\twho\tthe cat\tyes\n")
    with pytest.raises(UsageError, match="sentence and question.*--text_column=question --text_pair_column=sentence"):
        read_table(str(path), Columns())
    assert read_table(str(path), Columns("question", "sentence"))[0].texts == ("who", "the cat")
    assert read_table(str(path), Columns("sentence"))[0].texts == ("the cat",)
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "who", "text": "the cat", "label": 1}) + "\n")
    with pytest.raises(UsageError, match="text and question"):
        read_table(str(tmp_path / "a.jsonl"), Columns())


@pytest.mark.parametrize("header", ["text\tlabel", "Sentence\tLabel", "question\tclass"])
def test_a_header_is_no_row_of_a_table_that_is_read_by_position(header, tmp_path):
    (tmp_path / "a.tsv").write_text(f"{header}\nthe cat\tyes\n")
    names = header.split("\t")
    with pytest.raises(
        UsageError, match=f"line 1: .*--text_column={names[0]} --label_column={names[1]}, or take the line out"
    ):
        read_table(str(tmp_path / "a.tsv"), Columns("0", None, "1"))
    (tmp_path / "a.tsv").write_text("text\tyes\nthe cat\tlabel\n")
    assert [row.label for row in read_table(str(tmp_path / "a.tsv"), Columns("0", None, "1"))] == ["yes", "label"]


@pytest.mark.shared_data
def test_labels_from_the_field(tmp_path, capsys):
    flags = {"task": "classify", "vocab_file": CASES / "nli_without_gold/vocab.txt", "max_seq_length": 32}
    source = CASES / "nli_without_gold/nli.jsonl"
    assert invoke("create_finetuning_data", input_file=source, output_dir=tmp_path / "a", **flags) == 0
    said = capsys.readouterr()
    assert "'-' looks like 'no label'" in said.out + said.err
    assert (
        invoke("create_finetuning_data", input_file=CASES / "qnli_columns/qnli.tsv", output_dir=tmp_path / "b", **flags)
        == 2
    )
    assert "--text_pair_column=sentence" in capsys.readouterr().err
    tags = [read_sentences(str(CASES / f"tags_other_spelling/{name}.conll"), None, None) for name in ("dash", "under")]
    assert [each.tags for each in tags[0]] == [each.tags for each in tags[1]]
