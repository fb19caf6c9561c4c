"""Tokenizers other than WordPiece inside a graph give the ids that they give outside."""

import json
import pathlib
import random

import pytest
import tensorflow as tf

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import UsageError
from data_pipelines.ops.serving_kinds import GRAPHS, byte_symbols
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text.byte_pairs import BpeTokenizer, ByteBpeTokenizer
from data_pipelines.text.kinds import KINDS
from data_pipelines.text.plain_units import CharacterTokenizer, WordTokenizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.train_kinds import train_tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/tokenizers"
GOLDEN_TEXTS = [json.loads(line)["text"] for line in (GOLDEN / "gpt2_byte_bpe.jsonl").open(encoding="utf-8")]


@pytest.fixture(scope="module")
def tokenizers():
    corpus = open_corpus(str(ROOT / "samples/zh/corpus.txt"), "zh")
    characters = sorted({c for text in GOLDEN_TEXTS[::2] for c in text.lower() if not c.isspace()} - {"▁"})
    names = sorted({word for text in GOLDEN_TEXTS for word in text.lower().split() if word.isalpha()})
    return {
        "byte_bpe": ByteBpeTokenizer.read(str(GOLDEN / "byte_bpe_vocab.json")),
        "bpe": BpeTokenizer.read(str(GOLDEN / "char_bpe_vocab.json")),
        "sentencepiece": train_tokenizer("sentencepiece", corpus, 1400),
        "characters": CharacterTokenizer(Vocabulary([*SPECIAL_TOKENS, "▁", *characters])),
        "words": WordTokenizer(Vocabulary([*SPECIAL_TOKENS, *names])),
    }


@pytest.fixture(scope="module")
def graphs(tokenizers):
    return {kind: GraphTokenizer(t, "text" if kind == "sentencepiece" else "core") for kind, t in tokenizers.items()}


ALL = ["byte_bpe", "bpe", "sentencepiece", "characters", "words"]


def random_texts():
    rng = random.Random(0)
    letters = "abcsstrevlmd   \n\t\u3000 ''''.,!?1290éÉ中文的Ⅷ²🙂\u0301\u200b"
    return ["".join(rng.choices(letters, k=rng.randint(0, 40))) for _ in range(400)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ALL)
def test_ids_in_the_graph_are_those_outside(tokenizers, graphs, kind):
    texts = GOLDEN_TEXTS + random_texts()
    found = tf.function(graphs[kind].tokenize)(tf.constant(texts))
    assert found.dtype == tf.int32
    for text, ids, pieces in zip(texts, found.to_list(), tokenizers[kind].encode_batch(texts), strict=True):
        assert ids == pieces.ids, repr(text)


def test_every_kind_is_served_or_says_that_it_is_not():
    assert {kind.kind for kind in GRAPHS} | {"wordpiece", "sentencepiece"} == set(KINDS)


def test_no_text_and_empty_texts_have_no_pieces(graphs):
    for graph in graphs.values():
        assert graph.tokenize(tf.constant(["", " "])).row_lengths().numpy()[0] == 0
        assert graph.tokenize(tf.constant([], tf.string)).nrows() == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["byte_bpe", "sentencepiece", "characters"])
def test_a_saved_graph_frames_a_pair_by_the_roles_of_its_vocabulary(tokenizers, graphs, kind, tmp_path):
    class Module(tf.Module):
        def __init__(self, tokenizer):
            super().__init__()
            self.tokenizer = tokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
        def features(self, first, second):
            return self.tokenizer.features([first, second], 64)

    tf.saved_model.save(Module(graphs[kind]), str(tmp_path / "saved"))
    found = tf.saved_model.load(str(tmp_path / "saved")).features(tf.constant(["hello 中"]), tf.constant(["文"]))
    tokenizer = tokenizers[kind]
    cls, sep = tokenizer.vocabulary["[CLS]"], tokenizer.vocabulary["[SEP]"]
    expected = [cls, *tokenizer.encode("hello 中").ids, sep, *tokenizer.encode("文").ids, sep]
    assert found["token_ids"].numpy().tolist() == [expected]


def test_what_has_no_equal_in_the_graph_is_refused(tokenizers):
    model = tokenizers["sentencepiece"].model
    byte_bpe, bpe = tokenizers["byte_bpe"], tokenizers["bpe"]
    words = tokenizers["words"].vocabulary
    for tokenizer, ops, message in (
        (SentencePieceTokenizer(model), "core", "SentencePiece needs the op of tensorflow-text"),
        (ByteBpeTokenizer(byte_bpe.vocabulary, byte_bpe.merges, add_prefix_space=True), "core", "`add_prefix_space`"),
        (
            ByteBpeTokenizer(byte_bpe.vocabulary, byte_bpe.merges, recognize_special_tokens=True),
            "core",
            "ordinary text",
        ),
        (BpeTokenizer(bpe.vocabulary, bpe.merges, words="blanks"), "core", "`words` = 'blanks'"),
        (WordTokenizer(words, segmenter="jieba"), "text", "`segmenter` = 'jieba'"),
    ):
        with pytest.raises(UsageError, match=message):
            GraphTokenizer(tokenizer, ops)


def test_the_bytes_are_written_as_the_library_writes_them():
    from tokenizers.pre_tokenizers import ByteLevel

    assert sorted(byte_symbols()) == sorted(ByteLevel.alphabet()) and byte_symbols()[ord(" ")] == "Ġ"
