"""Texts that are read as they are, with their line ends and blanks: the tokens of the whole text, in one stream."""

import gzip
import json
import pathlib

import numpy as np
import pytest

from data_pipelines.corpora import documents
from data_pipelines.corpora.documents import BLANKS, LONGEST_DOCUMENT, with_blanks
from data_pipelines.records.source import RecordSource
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from tests.helpers.invocation import invoke

VOCABULARY = str(pathlib.Path(__file__).parents[1] / "golden/tokenizers/byte_bpe_vocab.json")
WORD_PIECES = "word pieces"  # stands for the file of the fixture
TOKENIZER = ByteBpeTokenizer.read(VOCABULARY)
END = TOKENIZER.vocabulary.roles["[EOS]"]
TEXT = "def f(x):\n    return x  # twice\n\n\n\tand\u3000\n\n  more \x1c!\x1c\nlast  words"


def records(folder, **flags) -> np.ndarray:
    """The tokens of the stream that `create_pretraining_data` makes."""
    given = {
        "vocab_file": VOCABULARY,
        "output_dir": folder / "records",
        "packing": "stream",
        "max_seq_length": 16,
        "num_shards": 1,
    }
    assert invoke("create_pretraining_data", **given | {"input_format": "verbatim"} | flags) == 0
    source = RecordSource(str(folder / "records"))
    parsed = [source.parse(item[None]) for _, item in source.in_order()]
    rows = [each["token_ids"][0, : each["segment_lengths"][0, 0]].numpy() for each in parsed]
    return np.concatenate([rows[0][:1], *(row[1:] for row in rows)])


def test_parts_are_the_text_and_their_pieces_are_its_own():
    parts = list(with_blanks(TEXT.split("\n")))
    assert "".join(parts) == TEXT and len(parts) == 5
    assert [i for part in parts for i in TOKENIZER.encode(part).ids] == list(TOKENIZER.encode(TEXT).ids)
    assert list(with_blanks(["", " ", ""], "\n")) == []
    assert all(not blank.strip() for blank in BLANKS)


def test_files_are_documents_and_keep_line_ends(tmp_path):
    (tmp_path / "a.txt").write_text(f"{TEXT}\n")
    (tmp_path / "b.txt").write_text("\n  indented\n")
    found = records(tmp_path, input_file=tmp_path / "*.txt")
    assert found.tolist() == [*TOKENIZER.encode(f"{TEXT}\n").ids, END, *TOKENIZER.encode("\n  indented\n").ids, END]


def test_texts_of_records_are_documents(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in (TEXT, "one\n\ntwo\n")))
    found = records(tmp_path, input_file=tmp_path / "a.jsonl")
    assert found.tolist() == [*TOKENIZER.encode(TEXT).ids, END, *TOKENIZER.encode("one\n\ntwo\n").ids, END]


def test_a_long_file_is_one_document_of_one_shard(tmp_path):
    lines = [f"line {number}{' ' * (number % 3)}" for number in range(2 * LONGEST_DOCUMENT + 7)]
    (tmp_path / "a.txt").write_text("\n\n".join(lines))
    found = records(tmp_path, input_file=tmp_path / "a.txt", num_shards=4)
    assert found.tolist().count(END) == 1 and found[-1] == END
    assert TOKENIZER.decode(found[:-1]) == "\n\n".join(lines) + "\n"


def test_long_lines_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONG_PART", 10)
    words = "one two  three\u3000four, five " * 20
    parts = list(documents.with_blanks([words, "end"]))
    assert "".join(parts) == f"{words}\nend" and 20 < len(parts) < 70
    assert [i for part in parts for i in TOKENIZER.encode(part).ids] == list(TOKENIZER.encode(f"{words}\nend").ids)


@pytest.mark.parametrize("ending", ["gz", "parquet"])
def test_compressed_files_and_tables_are_read(tmp_path, ending):
    if ending == "gz":
        with gzip.open(tmp_path / "a.txt.gz", "wt", newline="") as file:
            file.write(f"{TEXT}\r\n")
        expected = f"{TEXT}\r\n"
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        parquet.write_table(pyarrow.table({"id": [1], "text": [TEXT]}), tmp_path / "a.parquet", compression="none")
        expected = TEXT
    assert records(tmp_path, input_file=tmp_path / "a.*").tolist() == [*TOKENIZER.encode(expected).ids, END]


@pytest.mark.long
def test_a_run_is_scored_as_it_was_taught(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": f"{TEXT}\n" * 8}) + "\n")
    records(tmp_path, input_file=tmp_path / "a.jsonl", text_field="body")
    run = {"data_dir": tmp_path / "records", "model_dir": tmp_path / "run", "num_train_steps": 1, "train_batch_size": 1}
    assert invoke("pretrain", system="gpt2", size="tiny", set="num_layers=1,hidden_dim=16,num_heads=2", **run) == 0
    assert (
        invoke(
            "evaluate", model_dir=tmp_path / "run", test_file=tmp_path / "a.jsonl", output_file=tmp_path / "scores.json"
        )
        == 0
    )
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert (scores["read"], scores["num_tokens"]) == ("verbatim", len(TOKENIZER.encode(f"{TEXT}\n" * 8).ids))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"packing": "full_sentences"}, "--packing=full_sentences asks for their sentences. Take --packing=stream"),
        ({"clean": "wiki"}, "--clean=wiki: takes out text, and --input_format=verbatim keeps all"),
        ({"min_sentence_chars": 3}, "--min_sentence_chars=3: takes out text"),
        ({"deduplicate": "exact"}, "--deduplicate=exact: takes out text"),
        ({"input_file": "a.txt:0.5,b.txt:0.5"}, "weights mix parts of texts"),
        ({"input_format": "*.txt=verbatim,auto"}, "verbatim is for all files"),
        ({"vocab_file": WORD_PIECES}, "--tokenizer=wordpiece has no pieces for line ends"),
    ],
)
def test_what_contradicts_it_is_refused(tmp_path, capsys, zh_vocabulary, flags, message):
    (tmp_path / "a.txt").write_text(TEXT)
    given = {"input_file": tmp_path / "a.txt", "vocab_file": VOCABULARY, "output_dir": tmp_path / "records"}
    asked = given | {"packing": "stream", "input_format": "verbatim"} | flags
    asked["vocab_file"] = zh_vocabulary if asked["vocab_file"] == WORD_PIECES else VOCABULARY
    assert invoke("create_pretraining_data", **asked) == 2
    assert message in capsys.readouterr().err
