"""Phrases: scores against the formula, what is joined, several passes, bounded memory, and the command."""

import random

import pytest

from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.phrases import PairCounts, find, join_all, join_pairs
from tests.helpers.invocation import invoke


def counted(sentences, most=1000):
    counts = PairCounts(most)
    for sentence in sentences:
        counts.add(sentence.split())
    return counts


def test_scores_are_those_of_word2phrase():
    counts = counted(["new york is new", "in new york", "york in new york", "a new a"])
    # new: 5, york: 4, "new york": 3; 14 words
    found = counts.phrases(0.0, 1)
    assert found["new", "york"] == pytest.approx((3 - 1) / 5 / 4 * 14)
    assert ("york", "is") not in found  # occurs once, as often as min_count discounts
    assert counts.phrases((3 - 1) / 5 / 4 * 14, 1) == {} and counts.phrases(0.0, 5) == {}


def test_pairs_do_not_cross_sentences_and_rare_words_and_signs_are_in_none():
    assert counted(["a b"] * 3 + ["b a"]).pairs == {("a", "b"): 3, ("b", "a"): 1}
    counts = counted(["x y"] * 4 + ["x"] * 4)
    assert list(counts.phrases(0.0, 3)) == [("x", "y")] and not counts.phrases(0.0, 5)
    assert not counted(["x ( 's"] * 9).phrases(0.0, 1) and list(counted(["the 2nd !"] * 9).phrases(0.0, 1)) == [
        ("the", "2nd")
    ]


def test_words_are_joined_from_left_to_right_and_once_a_pass():
    pairs = {("a", "a"), ("a", "b"), ("a_b", "c")}
    assert join_pairs("a a a b".split(), pairs) == ["a_a", "a_b"]
    assert join_pairs("a b c".split(), pairs) == ["a_b", "c"]
    assert join_all("a b c".split(), [pairs, pairs]) == ["a_b_c"]
    assert join_pairs([], pairs) == []


def test_later_passes_join_what_earlier_ones_have_joined():
    text = [f"a{n} new york city b{n}".split() for n in range(6)] + ["new york".split(), "york city".split()]
    first, second = find([iter(text), iter(text)], [0.5, 0.5], 2, 1000)
    assert set(first) == {("new", "york"), ("york", "city")} and set(second) == {("new_york", "city")}
    assert join_all(text[0], [first, second]) == ["a0", "new_york_city", "b0"]


def test_the_rarest_are_dropped_where_there_are_too_many():
    draw = random.Random(0)
    sentences = [f"the boat w{draw.randrange(5000)}" for _ in range(3000)]
    few, all_of_them = counted(sentences, 500), counted(sentences, 10**6)
    assert len(few.words) + len(few.pairs) <= 500 < len(all_of_them.words)
    assert few.pairs["the", "boat"] == 3000 and few.num_words == 9000


def test_a_text_is_written_with_its_phrases_and_becomes_a_vocabulary(tmp_path, capsys):
    text, joined = tmp_path / "text.txt", tmp_path / "out/joined.txt"
    days = [f"See{n} New York, day{n}.\nNew York is old{n}.\n\nMay{n} in{n} New York.\n" for n in range(8)]
    text.write_text("".join(days), "utf-8")
    flags = {
        "input_file": text,
        "input_format": "sentences",
        "thresholds": "4.5",
        "min_count": 2,
        "output_file": joined,
    }
    assert invoke("find_phrases", **flags) == 0
    assert "24 of them phrases (1 different), such as new_york" in capsys.readouterr().out
    documents = list(read_documents(open_corpus(str(joined), "en", "sentences").whole()))
    assert documents[0].sentences == ["see0 new_york , day0 .", "new_york is old0 ."] and len(documents) == 9
    assert (tmp_path / "out/joined.txt.phrases.tsv").read_text("utf-8").splitlines()[1].startswith("new_york\t24\t")
    assert invoke("find_phrases", **flags) == 2  # is there
    assert "add --overwrite" in capsys.readouterr().err
    vocabulary = {"tokenizer": "words", "segmenter": "presegmented", "output_file": tmp_path / "vocabulary"}
    assert invoke("train_vocabulary", input_file=joined, input_format="sentences", vocab_size=30, **vocabulary) == 0
    tokenizer = open_tokenizer(str(tmp_path / "vocabulary"))
    assert "new_york" in tokenizer.vocabulary and tokenizer.words("new_york is") == ["new_york", "is"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"thresholds": "100,low"}, "'low' is no number of at least 0"),
        ({"thresholds": "-1"}, "'-1' is no number of at least 0"),
        ({"output_file": "text.txt"}, "exists"),
    ],
)
def test_what_cannot_work_is_told(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("a b\n", "utf-8")
    assert invoke("find_phrases", **{"input_file": "text.txt", "output_file": "joined.txt", **flags}) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "joined.txt").exists()
