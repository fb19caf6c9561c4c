"""Tables that are read as what they are not are refused, or doubted aloud."""

import numpy as np
import pytest

from data_pipelines.corpora.conll import read_conll
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import header_warning
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.plan import FEW_STEPS, few_steps_warning


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("text\tlabel", ("0", None, "1")), ("id\ttext\tlabel", ("1", None, "2")), ("review\tsentiment", ("0", None, "1")),
        ("Premise\tHypothesis\tgold_label", ("0", "1", "2")), ("sentence1\tsentence2\tscore", ("0", "1", "2")),
        ("text\tlabel", ("0", None, None)), ("id\tquestion", ("1", None, None)),
    ],
)  # fmt: skip
def test_a_header_is_no_row_of_a_table_that_is_read_by_position(tmp_path, header, columns):
    (tmp_path / "a.tsv").write_text(f"{header}\n" + "\t".join(["a text", "b", "c"][: header.count("\t") + 1]) + "\n")
    with pytest.raises(UsageError, match=r"a\.tsv, line 1: .* look like names of columns, .*--text_column=[A-Za-z]"):
        read_table(str(tmp_path / "a.tsv"), Columns(*columns), with_labels=columns[2] is not None)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ("text\tnegative\n", ("0", None, "1")), ("a text\tlabel\n", ("0", None, "1")), ("text\n", ("0", None, None)),
        ("text\t7\n", ("0", None, None)), ("label\tlabel\n", ("0", None, "1")),
    ],
)  # fmt: skip
def test_a_row_with_such_a_word_is_a_row(tmp_path, rows, columns):
    (tmp_path / "a.tsv").write_text(rows)
    assert len(read_table(str(tmp_path / "a.tsv"), Columns(*columns), with_labels=columns[2] is not None)) == 1


def test_a_label_that_only_the_first_row_has_is_doubted():
    labels = ["class", "neg", "pos"]
    assert "the label of the first row, 'class', occurs in no other row" in header_warning(
        labels, np.array([0, 1, 1, 2, 2, 1])
    )
    assert header_warning(labels, np.array([0, 1, 1, 2, 2, 0])) is None
    assert header_warning(labels, np.array([0, 1, 1, 1, 1, 2])) is None  # rare labels are nothing odd here
    assert header_warning(labels, np.array([0, 1, 1, 2, 2])) is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("text\tlabel\nhello\tpos\n", "its first line names columns, text, label"),
        ("id\tsentence\tlabel\n1\thello you\tpos\n", "its first line names columns, id, sentence, label"),
        ("hello you\tpos\nwhat is it\tneg\nno\tneg\n", "2 of its 3 words hold blanks, such as 'hello you'"),
    ],
)
def test_a_labelled_table_is_no_file_of_tags(tmp_path, lines, said):
    (tmp_path / "a.tsv").write_text(lines)
    with pytest.raises(UsageError, match=f"is a table of texts with labels, .*{said}.*--task=classify"):
        list(read_conll(str(tmp_path / "a.tsv")))


@pytest.mark.parametrize("lines", ["text\tO\nlabel\tO\n\n", "New York\tB\n\nis\tO\n", "10 000\tO\nmen\tO\n"])
def test_words_are_words(tmp_path, lines):
    (tmp_path / "a.tsv").write_text(lines)
    assert list(read_conll(str(tmp_path / "a.tsv")))


def test_a_run_with_few_steps_says_so():
    options = Options(init_checkpoint="x", model_dir="y", train_file="z", num_train_epochs=3.0)
    assert few_steps_warning(FEW_STEPS, options) is None
    said = few_steps_warning(5, options)
    assert (
        said.startswith("Warning: 5 step(s) in all")
        and "--num_train_epochs=12" in said
        and "--train_batch_size" in said
    )
