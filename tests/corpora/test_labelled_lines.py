"""Lines of fastText: labels that begin with `__label__`, as classifiers and records read them."""

import gzip

import pytest

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import DataError, UsageError
from tests.helpers.invocation import invoke


@pytest.fixture
def written(tmp_path):
    def write(text, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


def rows(path, **how):
    return [(row.texts, row.label, row.labels, row.line) for row in read_table(path, Columns(), **how)]


@pytest.mark.parametrize("name", ["train.txt", "valid.ft", "train.txt.gz"])
def test_labels_are_what_begins_with_the_prefix_wherever_it_stands(written, name):
    path = written("\n__label__a one  day\n\ntwo __label__b,c\tdays\r\n", name)
    assert rows(path) == [(("one day",), "a", None, 2), (("two days",), "b,c", None, 4)]
    assert rows(path, label_lists=True) == [(("one day",), None, ("a",), 2), (("two days",), None, ("b,c",), 4)]
    assert rows(path, with_labels=False) == [(("one day",), None, None, 2), (("two days",), None, None, 4)]


def test_several_labels_are_for_a_task_of_several(written):
    path = written("__label__a __label__b some text\n__label__a more\nnone at all\n")
    assert [row[2] for row in rows(path, label_lists=True)] == [("a", "b"), ("a",), ()]
    with pytest.raises(
        DataError, match=r"line 1: 2 labels that begin with __label__, expected one; --task=multi_label"
    ):
        read_table(path, Columns())
    bad = []
    assert [row.label for row in read_table(path, Columns(), bad_rows=bad)] == ["a"]
    assert [str(each).rpartition("/")[2][:24] for each in bad] == [
        "train.txt, line 1: 2 lab",
        "train.txt, line 3: 0 lab",
    ]


def test_what_cannot_be_read_is_named(written):
    with pytest.raises(DataError, match="line 2: a label is empty"):
        read_table(written("__label__a text\n__label__ text\n"), Columns())
    with pytest.raises(UsageError, match=r"have no columns. Found --text_column=0 and --label_column=1: leave out"):
        read_table(written("__label__a text\n"), Columns("0", None, "1"))
    assert rows(written("label\ttext\nx\ta __label__b\n")) == [(("a __label__b",), "x", None, 2)]  # a table


@pytest.mark.long
def test_records_and_a_classifier_are_made_of_them(written, tmp_path):
    words = {"good": "fine nice lovely", "bad": "awful poor nasty"}
    path = written(
        "".join(f"__label__{label} {word} thing\n" for label, row in words.items() for word in row.split()) * 4
    )
    (tmp_path / "text.txt").write_text((" ".join([*words.values(), "thing"]) + "\n") * 9)
    made = {"tokenizer": "word_characters", "vocab_size": 20, "output_file": tmp_path / "words"}
    assert invoke("train_vocabulary", input_file=tmp_path / "text.txt", **made) == 0
    made = {"vocab_file": tmp_path / "words", "output_dir": tmp_path / "records", "max_seq_length": 8}
    assert invoke("create_finetuning_data", task="classify", input_file=path, **made) == 0
    run = {
        "init_checkpoint": "new:fasttext_classifier",
        "vocab_file": tmp_path / "words",
        "model_dir": tmp_path / "run",
    }
    learning = {"num_train_epochs": 30, "max_seq_length": 8, "train_batch_size": 8, "learning_rate": 0.5}
    assert invoke("finetune", task="classify", train_file=path, eval_file=path, **run, **learning) == 0
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=path, output_file=tmp_path / "scores.json") == 0
    assert '"accuracy": 1.0' in (tmp_path / "scores.json").read_text()
