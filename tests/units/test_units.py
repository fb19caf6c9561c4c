"""Units of texts: the offline and the in-graph twin give the same arrays, which are those of bilm-tf and of fastText."""

import json
import pathlib
import pickle

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text import open_words, plain_units
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.open_words import OpenVocabulary, OpenWordTokenizer, UnknownWord
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.vocabulary import CLS, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from data_pipelines.units.characters import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    FILLING,
    WIDTH,
    Characters,
    read_back,
    spell,
    spell_in_graph,
    spell_mark,
)
from data_pipelines.units.ids import Ids
from data_pipelines.units.ngrams import NGrams, bucket_ids, bucket_ids_in_graph

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
LONG = "supercalifragilisticexpialidocious" * 3
WORDS = ("cat", "Café", "天气", "😀", "x" * 60, "é" * 30, "天" * 17, LONG, "<S>", "don't", "a", "ﬁ", "\u0301")
TEXTS = (
    "The cat sat.", "", "  ", "今天 天气，hello Café", f"{LONG} a😀b don't",
    "unknown-words don't\u2028stay\talike \x1c odd\x85ends [SEP] \ud7ff",
)  # fmt: skip
KNOWN = ["the", "The", "cat", "sat", ".", "今", "天", "hello", "a", "don", "'", "[", "]"]


def vocabulary():
    return Vocabulary([*SPECIAL_TOKENS, *KNOWN])


def same(offline, graph):
    """Compares arrays of one text with ragged tensors of it alone."""
    assert offline.keys() == graph.keys()
    for name, value in offline.items():
        found = graph[name].to_tensor()[0].numpy()
        np.testing.assert_array_equal(found.reshape(value.shape), value, err_msg=name)


def test_the_characters_of_cat():
    expected = [BEGIN_WORD, ord("c") + 1, ord("a") + 1, ord("t") + 1, END_WORD, *[FILLING] * 45]
    assert spell(["cat"]).tolist() == [expected]


@pytest.mark.parametrize("case", ["bilm_two_layers", "bilm_no_skip_tanh"])
def test_characters_are_those_of_bilm(case):
    folder = GOLDEN / "elmo" / case
    described = json.loads((folder / "config.json").read_text())
    ids, width = np.load(folder / "inputs.npz"), described["hyperparameters"]["max_characters"]
    marks = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}
    for name, sentences in described["sentences"].items():
        for row, sentence in zip(ids[f"char_ids_{name}"], sentences, strict=True):
            words = ["<S>", *sentence, "</S>"]
            spelled = spell(words, width)
            for place, word in enumerate(words):
                if word in marks and word in [*described["vocabulary"], "<S>", "</S>"]:
                    spelled[place] = spell_mark(marks[word], width)
            np.testing.assert_array_equal(row[: len(words)], spelled)
            assert not row[len(words) :].any()


@pytest.mark.parametrize("width", [WIDTH, 16])
def test_words_are_spelled_alike_in_a_graph(width):
    graph = tf.function(lambda words: spell_in_graph(words, width), input_signature=[tf.TensorSpec([None], tf.string)])
    np.testing.assert_array_equal(graph(tf.constant(WORDS)), spell(WORDS, width))
    assert graph(tf.constant([], tf.string)).shape == (0, width)


def test_a_word_is_read_back_from_its_characters():
    short = [word for word in WORDS if len(word.encode()) <= WIDTH - 2]
    assert [read_back(row) for row in spell(short)] == short
    assert read_back(spell([LONG])[0]) == LONG[: WIDTH - 2]
    assert read_back(spell_mark(BEGIN_SENTENCE)) is None and read_back(np.zeros(WIDTH, np.int32)) is None


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("segmenter", ["none", "presegmented"])
def test_units_of_texts_are_alike_in_a_graph(segmenter, lower):
    words = WordTokenizer(vocabulary(), lower, segmenter)
    units = (
        Ids(words), Characters(OpenWordTokenizer(vocabulary(), lower, segmenter)), NGrams(words, buckets=1000),
    )  # fmt: skip
    for unit in units:
        graph = unit.graph()
        for text in TEXTS:
            found = unit.offline(text)
            assert found.keys() == unit.features.keys()
            same(found, graph(tf.constant([text])))


def test_unknown_words_differ_by_their_characters_only():
    found = Characters(OpenWordTokenizer(vocabulary())).offline("dog The mouse")
    assert found["token_ids"].tolist() == [vocabulary()[UNKNOWN], vocabulary()["The"], vocabulary()[UNKNOWN]]
    assert [read_back(row) for row in found["character_ids"]] == ["dog", "The", "mouse"]


def test_an_unknown_word_stays_one_in_a_copy():
    word = pickle.loads(pickle.dumps(UnknownWord(1, "dog")))
    assert word == 1 and word.word == "dog" and [0, word].count(1) == 1


def test_records_give_back_the_words():
    tokenizer = OpenWordTokenizer(vocabulary())
    known: OpenVocabulary = tokenizer.vocabulary
    ids = [known[CLS], *tokenizer.encode("dog The mouse").ids, known[SEP]]
    features = known.token_features(ids)
    again = known.words_of(np.array(ids), features)
    assert again == ids and [i.word for i in again if isinstance(i, UnknownWord)] == ["dog", "mouse"]
    np.testing.assert_array_equal(known.token_features(again)["character_ids"], features["character_ids"])


def test_words_are_spelled_and_normalised_alike_whatever_was_seen_before(monkeypatch):
    words = "The Cat sees Käthe and a Cat sees Zoë too".split()
    plain = OpenWordTokenizer(vocabulary(), True)
    expected = [plain.encode(word) for word in words]
    monkeypatch.setattr(open_words, "MOST_SPELLED", 3)
    monkeypatch.setattr(plain_units, "MOST_KNOWN", 2)
    small = OpenWordTokenizer(vocabulary(), True)
    for word, pieces in zip(words, expected, strict=True):
        found = small.encode(word)
        assert found.ids == pieces.ids and len(small.splitter.known) <= 2
        ids = [small.vocabulary[CLS], *found.ids, small.vocabulary[SEP], small.vocabulary[PAD]]
        rows = small.vocabulary.token_features(ids)["character_ids"]
        lowered = plain.splitter.normalize(word)
        np.testing.assert_array_equal(rows[1:2], spell([lowered]))
        np.testing.assert_array_equal(rows[[0, 2]], [spell_mark(BEGIN_SENTENCE), spell_mark(END_SENTENCE)])
        assert not rows[3].any() and len(small.vocabulary.row_of) <= 4


def test_framed_texts_have_the_characters_of_special_tokens_and_none_on_padding():
    tokenizer = OpenWordTokenizer(vocabulary(), segmenter="presegmented")
    rows = [("dog The", "mouse sat"), ("a", " ".join(["many"] * 30)), ("", "[SEP]")]
    found = pack_texts(rows, tokenizer, 16)
    characters = found["character_ids"]
    assert characters.shape == (*found["token_ids"].shape, WIDTH) and not characters[~found["padding_mask"]].any()
    np.testing.assert_array_equal(characters[:, 0], np.stack([spell_mark(BEGIN_SENTENCE)] * 3))
    np.testing.assert_array_equal(characters[0, 6], spell_mark(END_SENTENCE))
    graph = GraphTokenizer(tokenizer, "core").features(list(map(tf.constant, zip(*rows, strict=True))), 16)
    assert graph.keys() == found.keys()
    width = graph["token_ids"].shape[1]
    for name, value in graph.items():
        np.testing.assert_array_equal(value, found[name][:, :width], err_msg=name)


def fasttext():
    described = json.loads((GOLDEN / "fasttext" / "subwords.json").read_text())
    return described["num_words"], described["rows"], described["big_bucket"]


def test_n_grams_are_those_of_fasttext():
    num_words, rows, big_bucket = fasttext()
    for row in rows:
        own = [row["word_id"]] if row["word_id"] >= 0 else []
        found = [*own, *(num_words + bucket for bucket in bucket_ids(row["word"], 3, 6, 100))]
        if row["word"] != "</s>":
            assert found == row["subword_ids"], row["word"]
    for row in big_bucket:
        buckets = [bucket for bucket in row["bucket_ids"] if bucket >= 0]
        assert list(bucket_ids(row["word"], 1, 5, row["buckets"])) == buckets, row["word"]


@pytest.mark.parametrize("lengths", [(3, 6), (1, 5), (0, 0)])
def test_n_grams_are_alike_in_a_graph(lengths):
    words = [*WORDS, *(row["word"] for row in fasttext()[1])]
    found = bucket_ids_in_graph(tf.constant(words), *lengths, 2_000_000)
    assert found.to_list() == [list(bucket_ids(word, *lengths, 2_000_000)) for word in words]
    assert bucket_ids_in_graph(tf.constant([], tf.string), *lengths, 2_000_000).to_list() == []


def test_a_word_of_the_vocabulary_has_its_own_row_before_those_of_its_parts():
    units = NGrams(WordTokenizer(vocabulary(), False), 3, 3, 10)
    found = units.offline("cat dog")["ngram_ids"]
    assert found[0, 0] == vocabulary()["cat"] and (found[0, 1:] >= len(vocabulary())).all()
    assert (found[1, :3] >= len(vocabulary())).all() and found[1, 3] == 0
