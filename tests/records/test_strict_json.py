"""JSON of strangers: every fault is one kind of error, named with its place, and no text holds half a character."""

import json
import os

import pytest

from data_pipelines import strict_json
from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.byte_pairs import read_pairs
from data_pipelines.text.kinds import read_config
from tests.helpers.invocation import invoke
from xmodels.models.folder import read_json

FAULTS = {
    "deep": "[" * 100_000,
    "digits": '{"a": 1' + "0" * 5_000 + "}",
    "half": '{"a": "\\ud83d"}',
    "turned": '{"a": "\\ude00\\ud83d"}',
    "cut": '{"a": ',
    "empty": "",
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_a_decode_error(name):
    with pytest.raises(json.JSONDecodeError):
        strict_json.loads(FAULTS[name])


def test_whole_characters_stay_and_halves_are_replaced_when_asked():
    assert strict_json.loads('{"\\ud83d\\ude00": "\\u4e2d é"}') == {"😀": "中 é"}
    assert strict_json.loads(b'["\\ud83d!", "\\ud83d\\ude00"]', replace=True) == ["\ufffd!", "😀"]


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(
    ("file", "read", "error"),
    [
        ("config.json", read_json, CheckpointError),
        ("tokenizer_config.json", read_config, DataError),
        ("vocab.json", read_pairs, DataError),
        ("manifest.json", lambda path: Manifest.read(path.removesuffix("/manifest.json")), DataError),
    ],
)
def test_every_file_that_is_json_is_named(tmp_path, name, file, read, error):
    path = tmp_path / file
    path.write_text(FAULTS[name])
    with pytest.raises(error, match=file):
        read(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_named(tmp_path, make):
    make(tmp_path / "config.json")
    with pytest.raises(
        CheckpointError, match=r"config\.json: not valid JSON \(it is a (pipe|folder|device or socket), not a file\)"
    ):
        read_json(str(tmp_path / "config.json"))


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "empty"])  # blank lines are no rows
def test_the_line_of_a_table_is_named(tmp_path, name):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1}\n' + FAULTS[name] + "\n")
    with pytest.raises(DataError, match="line 2"):
        read_table(str(path), Columns())


@pytest.mark.parametrize(("way", "texts"), [("replace", ["a", "\ufffdb", "c"]), ("drop", ["a", "c"])])
def test_a_corpus_replaces_or_drops_half_characters_as_other_bad_text(tmp_path, way, texts):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "a"}\n{"text": "\\ud83db"}\n{"text": "c"}\n')
    with pytest.raises(DataError, match="line 2: half of a character.*--on_bad_text"):
        list(read_documents(open_corpus(str(path), "en").whole()))
    whole, monitor = open_corpus(str(path), "en", reading=Reading(on_bad_text=way)).whole(), Monitor()
    assert [document.sentences for document in read_documents(whole, monitor)] == [[text] for text in texts]
    assert sum(monitor.counts.values()) == 1


def test_a_flag_of_other_bytes_is_named(capsys):
    assert invoke("predict", "--model_dir=run", "--text=caf\udce9") == 2
    assert "--text: not UTF-8 (byte 0xe9 behind 'caf')" in capsys.readouterr().err
