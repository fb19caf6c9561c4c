"""Pieces in a graph stand in the text where the tokenizer says, and open words where it says."""

import functools
import io
import json

import keras
import pytest
import sentencepiece
import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.ops.text_places import places_of
from data_pipelines.text.plain_units import CharacterTokenizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER
from tests.ops.test_serving_kinds import GOLDEN_TEXTS, graphs, random_texts, tokenizers  # noqa: F401
from tests.tasks.test_answer_span import squad
from xmodels.models import folder
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.runs.fine_tuned import load_predictor as load

TEXTS = [
    "Ann lives in York.", "", " ", "NAÏVE ﬁancé №1 👩‍🚀 [MASK] a  b\u0301c,d 北京", "lives " * 3 + "x" * 120 + "\u00ad lives",
    "é\te E\u0301", "\n\n中文 的\u3000a中b", "\x1c\x1d!  a\u00a0b", "🙂🙂\u0301",
]  # fmt: skip
QUOTED = [
    "``a'' '''' ```b", " `  ` '\t' İΣ ΑΣ ΣΑΣ. Α\u0301Σ' Σ", "1, 12,, 3,a ²³, 7,", "\u2003 ﷺ  ¨ ΑΣ\u0301 ΑΣ'", "Ǆ ſ ẞ Å ΑΣ:Α",
]  # fmt: skip
EXPORTED = ["Ann  lives in New York.", "", " ", "北京 é\u0301 🙂, Bob", "many words, " * 20]


@functools.cache
def pieces_with_commas() -> bytes:
    """A SentencePiece model that knows "10," and sigmas as pieces."""
    model, lines = (
        io.BytesIO(),
        ['in 10, 12, 7, of "ΑΣ" the τος σας ΤΟΣ aéb 中文 ²³ 90,9 10,10', *QUOTED, *GOLDEN_TEXTS],
    )
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines[:1] * 40, *lines]), model_writer=model, vocab_size=700, hard_vocab_limit=False,
        character_coverage=1.0, split_by_number=False, split_digits=False, split_by_unicode_script=False, minloglevel=3,
    )  # fmt: skip
    return model.getvalue()


def test_the_model_of_these_tests_parts_digits():
    tokenizer = SentencePieceTokenizer(pieces_with_commas(), part_digits=True)
    assert sum(len(tokenizer.parts(piece)) > 1 for piece in range(len(tokenizer.vocabulary))) > 3
    assert {"σ", "ς"} <= set("".join(tokenizer.vocabulary.tokens))


def pair_of(kind, tokenizers, graphs):  # noqa: F811
    """A tokenizer, and its like in a graph."""
    if kind in graphs:
        return tokenizers[kind], graphs[kind]
    if kind in tokenizers:
        tokenizer = tokenizers[kind]
    elif kind == "unblanked":
        characters = tokenizers["characters"].vocabulary.tokens
        tokenizer = CharacterTokenizer(Vocabulary([token for token in characters if token != "▁"]), do_lower_case=False)
    else:
        cleaned = {"albert": {"do_lower_case": True}, "xlnet": {"keep_accents": False}, "wordpiece": {}}[kind]
        tokenizer = (
            SentencePieceTokenizer(pieces_with_commas(), clean=True, part_digits=True, **cleaned)
            if cleaned
            else TOKENIZER
        )
    return tokenizer, GraphTokenizer(tokenizer, "text")


KINDS_OF_PIECES = ["wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [*KINDS_OF_PIECES, "albert", "xlnet", "unblanked"])
def test_pieces_stand_where_the_tokenizer_says(kind, tokenizers, graphs):  # noqa: F811
    tokenizer, graph = pair_of(kind, tokenizers, graphs)
    texts = [*TEXTS, *GOLDEN_TEXTS, *QUOTED, *random_texts()]
    texts = [text for text in texts if "aaaaa" not in text]  # equally likely pieces, of which libraries choose others
    found = {name: x.to_list() for name, x in tf.function(places_of(graph, tokenizer))(tf.constant(texts)).items()}
    for row, (text, pieces) in enumerate(zip(texts, tokenizer.encode_batch(texts), strict=True)):
        assert found["ids"][row] == list(pieces.ids), repr(text)
        spans = list(zip(found["starts"][row], found["ends"][row], strict=True))
        assert spans == [tuple(span) for span in pieces.spans], repr(text)
        assert found["opens"][row] == [bool(x) for x in pieces.word_start], repr(text)
        assert found["blank"][row] == [not text[a:b].strip() for a, b in spans], repr(text)


@pytest.mark.parametrize("kind", [*KINDS_OF_PIECES, "albert"])
def test_no_texts_have_no_pieces(kind, tokenizers, graphs):  # noqa: F811
    tokenizer, graph = pair_of(kind, tokenizers, graphs)
    placed = places_of(graph, tokenizer)
    for texts in ([], ["", ""]):
        found = placed(tf.constant(texts, tf.string))
        assert all(x.nrows() == len(texts) and not x.flat_values.numpy().size for x in found.values())


def network_of(tokenizer, path):
    """A small RoBERTa that reads pieces of a kind, as a model folder."""
    keras.utils.set_random_seed(1)
    config = RobertaConfig(
        len(tokenizer.vocabulary), 16, 1, 2, 16, max_sequence_length=48, dropout=0.0, initializer_stddev=0.3
    )
    path.mkdir()
    folder.write_model(
        str(path), Roberta(config).initialize(), None, tokenizer.files(), tokenizer.describe(), "roberta"
    )
    return path


OTHER_KINDS = [
    pytest.param(kind, marks=pytest.mark.long) for kind in ("sentencepiece", "characters", "words", "albert")
]


def fine_tuned_and_exported(task, kind, tokenizers, path):  # noqa: F811
    """Folders of a run of a task over pieces of a kind, and of what is served. `export_model` compares the answers of both."""
    sentences = [("Ann/B-PER lives/O in/O New/B-LOC York/I-LOC ./O").split(), "Bob/B-PER is/O here/O".split()] * 8
    rows = ["\n".join(word.replace("/", "\t") for word in words) + "\n" for words in sentences]
    table, more = {"tag": ("\n".join(rows), {}), "answer_span": (json.dumps(squad(16, 0)), {"max_query_length": 8})}[
        task
    ]
    (path / "train").write_text(table, "utf-8")
    tokenizer, _ = pair_of(kind, tokenizers, {})
    network, ops = network_of(tokenizer, path / "network"), "text" if tokenizer.kind == "sentencepiece" else "core"
    assert invoke(
        "finetune", task=task, train_file=path / "train", model_dir=path / "run", init_checkpoint=network, train_batch_size=8,
        num_train_epochs=1, learning_rate=1e-2, distribution_strategy="one_device", jit_compile="false", max_seq_length=24,
        doc_stride=6, **more,
    ) == 0  # fmt: skip
    assert invoke("export_model", model_dir=path / "run", export_dir=path / "served", serving_ops=ops) == 0
    return str(path / "run"), str(path / "served/1")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["byte_bpe", *OTHER_KINDS])
def test_taggers_are_served_with_other_pieces_too(kind, tokenizers, tmp_path):  # noqa: F811
    run, exported = fine_tuned_and_exported("tag", kind, tokenizers, tmp_path)
    served = tf.saved_model.load(exported).signatures["words"](text=tf.constant(EXPORTED))
    for row, found in enumerate(load(run).predict(EXPORTED)):
        count = len(found.spans)
        assert served["start"][row].numpy().tolist()[:count] == [start for start, _ in found.spans]
        assert [tag.decode() for tag in served["tag"][row].numpy()[:count]] == found.tags
        assert not any(served["word"][row].numpy()[count:])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["byte_bpe", *OTHER_KINDS])
def test_finders_of_answers_are_served_with_other_pieces_too(kind, tokenizers, tmp_path):  # noqa: F811
    _, exported = fine_tuned_and_exported("answer_span", kind, tokenizers, tmp_path)
    assert "start" in tf.saved_model.load(exported).signatures["serving_default"].structured_outputs
