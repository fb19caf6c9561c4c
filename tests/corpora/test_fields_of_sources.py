"""Files of a corpus whose texts stand in different fields."""

import json

import pytest

from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.files import split_patterns, split_sources
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import UsageError
from tests.helpers.doctor_clinic import vocabulary_text
from tests.helpers.invocation import invoke


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"body": f"Body {i}.", "title": f"Title {i}."} for i in range(3)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.csv").write_text('stars,review\n5,"Review, one."\n1,Review two.\n')
    (tmp_path / "c.tsv").write_text("text\ttitle\nText.\tNone.\n")
    (tmp_path / "plain.txt").write_text("One sentence.\n\nAnother one.\n")


def read(patterns, **choices):
    corpus = open_corpus(patterns, "en", reading=Reading(**choices))
    return [" ".join(each.sentences) for part in corpus.cut(2) for each in read_documents(part, Monitor())]


def test_each_file_is_read_with_its_own_field(files):
    found = read("a.jsonl{text=body},b.csv{text=review},c.tsv")
    assert sorted(found) == ["Body 0.", "Body 1.", "Body 2.", "Review two.", "Review, one.", "Text."]
    assert read("a.jsonl{text=title},c.tsv", text_field="title")[:1] == ["Title 0."]  # others keep that of the flag
    assert "None." in read("a.jsonl{text=title},c.tsv", text_field="title")


def test_fields_go_with_weights_globs_and_texts_without_fields(files):
    corpus = open_corpus("a.json*{text=body}:0.7,plain.txt:0.3", "en")
    assert [source.weight for source in corpus.sources] == [0.7, 0.3]
    found = {" ".join(each.sentences) for each in read_documents(corpus.whole(), Monitor())}
    assert {"Body 0.", "One sentence."} <= found


def test_two_columns_of_parallel_text(tmp_path):
    (tmp_path / "p.tsv").write_text("en\tx\tzh\none\t-\t一\n")
    corpus = open_corpus(f"{tmp_path}/p.tsv{{text=en,target=zh}}", "en", "parallel")
    assert [each.sentences for each in read_documents(corpus.whole(), Monitor())] == [["one", "一"]]


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        ("a.jsonl{txt=body}", "expected the fields of text in the braces, {text=NAME}"), ("a.jsonl{text=}", "expected the fields"),
        ("a.jsonl{text=a,text=b}", "expected the fields"), ("a.jsonl{text=body},*.jsonl{text=title}", "a.jsonl has two fields"),
        ("plain.txt{text=body},a.jsonl", "plain.txt is read as sentences, which has no fields"),
    ],
)  # fmt: skip
def test_fields_that_cannot_be_meant_are_refused(patterns, said, files):
    with pytest.raises(UsageError, match=said):
        open_corpus(patterns, "en")


def test_a_name_with_braces_is_a_name(files, tmp_path):
    (tmp_path / "odd{x=y}.txt").write_text("Odd.\n")
    (tmp_path / "text{a=b}").write_text("Odder.\n")
    assert sorted(read("odd{x=y}.txt,text{a=b}")) == ["Odd.", "Odder."]
    assert split_patterns("a,b{text=x,target=y}, c") == ["a", "b{text=x,target=y}", "c"]
    assert split_sources("a{text=x,target=y}:2,b:1") == [("a{text=x,target=y}", 2.0), ("b", 1.0)]


def test_the_command_keeps_what_was_given(files, tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text(vocabulary_text())
    flags = {"vocab_file": "vocab.txt", "max_seq_length": 16, "num_shards": 1, "output_dir": "records"}
    given = "a.jsonl{text=body},b.csv{text=review}"
    assert invoke("create_pretraining_data", input_file=given, **flags) == 0
    stored = json.loads((tmp_path / "records/manifest.json").read_text())
    assert stored["settings"]["input_file"] == given
    assert "documents 5 " in capsys.readouterr().out
    assert invoke("train_vocabulary", input_file=given, vocab_size=300, output_file="v.txt") == 0
    labelled = {
        "task": "classify",
        "input_file": "b.csv{text=review}",
        "vocab_file": "vocab.txt",
        "output_dir": "labelled",
    }
    assert invoke("create_finetuning_data", **labelled) == 2
    assert "Name columns by --text_column" in capsys.readouterr().err
