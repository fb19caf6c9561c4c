"""Lines end at LF and CR LF, in whatever is read; other characters that some call line ends belong to the text."""

import json

import pytest

from data_pipelines.batches.running_text import _texts
from data_pipelines.corpora.choices import read_choices
from data_pipelines.corpora.cloze import _passages
from data_pipelines.corpora.conll import read_conll
from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.corpora.translations import read_translations
from data_pipelines.errors import DataError
from data_pipelines.text.lexicon import Lexicon
from xmodels.conversion.fairseq import DICTIONARY, ENCODER, MERGES, _tokenizer
from xmodels.conversion.vectors import glove
from xmodels.jobs.generate.run import lines_of
from xmodels.jobs.predict.texts_of_files import texts_of
from xmodels.tasks.base.answer import plain_lines

ODD = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
each_odd = pytest.mark.parametrize("odd", ODD, ids=ascii)
each_end = pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)


def write(path, lines, end):
    path.write_bytes("".join(line + end for line in lines).encode())
    return str(path)


def sentences(path, layout):
    return [document.sentences for document in read_documents(open_corpus(path, "en", layout).whole())]


@each_odd
@each_end
def test_readers_of_texts_find_the_same_lines(tmp_path, odd, end):
    lines = [f"one{odd}two", "three", f"four{odd}{odd}five"]
    path = write(tmp_path / "a.txt", lines, end)
    for read in (plain_lines, lines_of, lambda p: list(texts_of(p))):
        assert read(path) == lines
    assert [text.rstrip("\r\n") for _, text in _passages(path)] == lines
    assert sentences(path, "sentences") == [lines]
    assert sentences(path, "documents") == [[line] for line in lines]
    pairs = [[text.rstrip(), other.rstrip()] for text, other, _ in read_translations(path, Columns(), path)]
    assert pairs == [[line, line] for line in lines]
    assert list(_texts(path)) == ["".join(line + end for line in lines)]  # verbatim


@each_odd
@each_end
def test_readers_of_tables_find_the_same_rows(tmp_path, odd, end):
    text = f"one{odd}two"
    tsv = write(tmp_path / "a.tsv", ["text\tlabel", f"{text}\tx", "three\ty"], end)
    csv = write(tmp_path / "a.csv", ["text,label", f'"{text}",x', "three,y"], end)
    record = json.dumps({"text": text, "label": "x"}, ensure_ascii=False)
    json_lines = write(tmp_path / "a.jsonl", [record, '{"text": "three", "label": "y"}'], end)
    for path in (tsv, csv, json_lines):
        rows = read_table(path, Columns())
        assert [(row.texts[0], row.label) for row in rows] == [(text, "x"), ("three", "y")]
        assert [row.line for row in rows] == ([1, 2] if path == json_lines else [2, 3])
        assert sentences(path, "auto") == [[text], ["three"]]
    questions = write(tmp_path / "q.tsv", [f"a{odd}b\tone{odd}\ttwo\tA", "c\tone\ttwo\tB"], end)
    assert [question.question for question in read_choices(questions)] == [f"a{odd}b", "c"]
    tagged = write(tmp_path / "a.conll", [f"a{odd}b\tO", "c\tO", ""], end)
    assert [sentence.words for sentence in read_conll(tagged)] == [[f"a{odd}b", "c"]]


def test_a_carriage_return_in_csv_stands_in_quotes(tmp_path):
    path = write(tmp_path / "a.csv", ["text,label", "one\rtwo,x"], "\n")
    with pytest.raises(DataError, match=r"a\.csv, line 2: a carriage return \(CR\) stands where no line ends"):
        read_table(path, Columns())


@each_odd
@each_end
def test_lists_of_words_and_vocabularies_of_others_find_the_same_lines(tmp_path, odd, end):
    word = f"a{odd}b"
    assert list(Lexicon(write(tmp_path / "l.txt", [word, "c"], end), has_phrases=True).entries) == [word, "c"]
    words, vectors = glove.read(write(tmp_path / "v.txt", [f"{word} 1 2", "c 3 4"], end))
    assert words == [word, "c"] and vectors.tolist() == [[1, 2], [3, 4]]
    write(tmp_path / DICTIONARY, [f"{word} 3", "1 2"], end)
    write(tmp_path / MERGES, ["#version: 0.2", "a b"], end)
    (tmp_path / ENCODER).write_text(json.dumps({"a": 0, "c": 1}))
    assert word in json.loads(_tokenizer(str(tmp_path)).files["vocab.json"])


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv", "a.jsonl"])
def test_lines_that_end_with_carriage_returns_alone_are_refused(tmp_path, name):
    record = {"a.jsonl": '{"text": "one two", "label": "x"}', "a.csv": "text,label", "a.tsv": "text\tlabel"}
    path = write(tmp_path / name, [record.get(name, "one two"), "three four", "five six"], "\r")
    readers = [lines_of if name == "a.txt" else lambda p: read_table(p, Columns()), lambda p: sentences(p, "auto")]
    for read in readers:
        with pytest.raises(DataError, match=rf"{name}, line 1: no line feed \(LF\), but 2 carriage return\(s\) .*`tr "):
            read(path)
