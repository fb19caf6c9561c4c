"""Sums of rows give the answers of fastText's classifier, whatever a word is made of and whatever stands in a text."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.text import cuts
from data_pipelines.text.frames import Frame
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.helpers.invocation import invoke
from xmodels.interfaces.reading import reading_without_system
from xmodels.jobs.predict.write import write
from xmodels.models.fasttext_classifier import FastTextClassifier, FastTextClassifierConfig
from xmodels.runs.fine_tuned import load_predictor
from xmodels.tasks.base import answer
from xmodels.tasks.classify import row_sums
from xmodels.tasks.classify.answer import Predictions, Predictor, predictions_of
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.multi_label.task import MultiLabel

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "a", "Über", "naïve", "good", "日本語", "word" * 20, "-", "."])
TEXTS = [
    "a good word . a naïve-good one, Über\talles", "", "   ", "日本語 is good 🙂 " + "word" * 20 + " " + "word" * 21, "[SEP] [CLS]",
    "good\u2003a\x1ca", "a " * 30, " new newer a ", "Good good GOOD", "-",
]  # fmt: skip
KINDS = {  # fields of the configuration, and labels
    "words": ({"buckets": 0}, "ab"),
    "runs": ({"buckets": 40, "word_ngrams": 3}, "abc"),
    "parts": ({"buckets": 40, "longest_ngram": 4}, "ab"),
    "both, more labels than dimensions": (
        {"buckets": 2_003, "shortest_ngram": 3, "longest_ngram": 6, "word_ngrams": 2}, "abcdefgh",
    ),
    "pruned": ({"buckets": 400, "kept_buckets": 250, "longest_ngram": 3, "word_ngrams": 2}, "abc"),
}  # fmt: skip


def make(kind: str = "runs", make_task=Classify, **more):
    """A network and a task with random weights."""
    numbers, labels = KINDS[kind]
    unknown = VOCABULARY["[UNK]"]
    config = FastTextClassifierConfig(len(VOCABULARY), hidden_dim=5, unknown_id=unknown, **numbers)
    network = FastTextClassifier(config).initialize()
    task = make_task(config, labels, reading_without_system(FastTextClassifier), **more)
    task.logits_of(tf.zeros([1, 5]))
    draw = np.random.default_rng(1)
    for variable in (*network.trainable_variables, *task.trainable_variables):
        variable.assign(draw.normal(size=variable.shape))
    if config.kept_buckets:
        network.rows.kept.assign(np.sort(draw.choice(config.buckets, config.kept_buckets, replace=False)))
    return network, task


@pytest.fixture(params=["operations", pytest.param("numba", marks=pytest.mark.extra("numba"))])
def loops(request, monkeypatch):
    """What sums up, from the first text on."""
    monkeypatch.setattr(row_sums, "MANY", -1 if request.param == "numba" else 1 << 60)


def by_network(network, task, tokenizer, texts, longest):
    features = pack_texts([(text,) for text in texts], tokenizer, longest, task.reading.frame)
    return np.array(task.forward(network, {name: tf.constant(value) for name, value in features.items()})["logits"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("segmenter", ["none", "presegmented"])
def test_logits_are_those_of_the_network(kind, segmenter, loops):
    network, task = make(kind)
    tokenizer = OpenWordTokenizer(VOCABULARY, segmenter=segmenter)
    with cuts.count_cuts() as cut:
        expected = by_network(network, task, tokenizer, TEXTS, 12)
    sums = row_sums.find(network, task, tokenizer, 12)
    assert sums.goes_first == (len(task.label_names) <= 5)
    for texts in (TEXTS, TEXTS[::-1], TEXTS[:1]):
        with cuts.count_cuts() as ours:
            found = sums.logits(texts)
        np.testing.assert_allclose(found, [expected[TEXTS.index(text)] for text in texts], atol=2e-5)
        assert texts != TEXTS or ours == cut
    assert cut.cut >= 1 and np.ptp(expected) > 1


def test_a_bias_and_tokens_on_both_sides_count(loops):
    network, task = make()
    task.head = keras.layers.Dense(3, bias_initializer="ones")
    task.logits_of(tf.zeros([1, 5]))
    task.reading = dataclasses.replace(task.reading, frame=Frame.of("[CLS] [MASK] A [SEP] [MASK]"))
    tokenizer = OpenWordTokenizer(VOCABULARY)
    expected = by_network(network, task, tokenizer, TEXTS, 14)
    np.testing.assert_allclose(row_sums.find(network, task, tokenizer, 14).logits(TEXTS), expected, atol=2e-5)
    task.reading = dataclasses.replace(task.reading, frame=Frame.of("A"))  # so that texts may be empty
    expected = by_network(network, task, tokenizer, TEXTS, 14)
    np.testing.assert_allclose(row_sums.find(network, task, tokenizer, 14).logits(TEXTS), expected, atol=2e-5)


def test_a_tree_of_labels_stays_behind_the_mean(loops):
    network, task = make(label_counts=[3, 2, 1])
    tokenizer = OpenWordTokenizer(VOCABULARY)
    sums = row_sums.find(network, task, tokenizer, 40)
    assert not sums.goes_first
    np.testing.assert_allclose(sums.logits(TEXTS), by_network(network, task, tokenizer, TEXTS, 40), atol=2e-5)


def test_what_is_forgotten_is_learnt_again(monkeypatch, loops):
    monkeypatch.setattr(row_sums, "MOST_KNOWN", 5)
    monkeypatch.setattr(row_sums, "ROWS_AT_ONCE", 3)
    network, task = make()
    sums = row_sums.find(network, task, OpenWordTokenizer(VOCABULARY), 40)
    first = sums.logits(TEXTS)
    known = len(sums.parts)
    assert known > 5
    np.testing.assert_array_equal(sums.logits(TEXTS), first)
    assert len(sums.parts) == known
    assert sums.logits(["a"]).shape == (1, 3) and len(sums.parts) == 1


@pytest.mark.extra("numba")
def test_compiled_loops_take_over_after_many_texts(monkeypatch):
    monkeypatch.setattr(row_sums, "MANY", 2 * len(TEXTS))
    network, task = make()
    sums = row_sums.find(network, task, OpenWordTokenizer(VOCABULARY), 40)
    found = [sums.logits(TEXTS) for _ in range(4)]
    assert type(sums.parts).__name__ == "CompiledParts" and len(sums.parts) > 20
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], atol=1e-6)


@pytest.mark.extra("numba")
def test_a_table_of_bytes_finds_all_parts_and_no_other():
    from xmodels.kernels.row_sums import CompiledParts

    parts, words = CompiledParts(), ["", *(f"é{n}" for n in range(3000)), "\ud800", "日本"]
    for begin in range(0, len(words), 700):
        assert parts.find(" ".join(words))[1] == set(words[begin:])
        parts.add(words[begin : begin + 700])
    numbers, unknown = parts.find(" ".join([*words[::-1], "é3000", "é30", "", "é3 0"]))
    assert unknown == {"é3000", "0"} and len(parts) == len(words)
    at = words.index
    assert numbers.tolist() == [*range(len(words))][::-1] + [-1, at("é30"), 0, at("é3"), -1]


@pytest.mark.parametrize("labels", [("a", "é_.1"), ("=1+1", "b"), ("a b", "c%d"), ("x\u2028", "y")])
def test_rows_of_many_predictions_are_those_of_each(labels, tmp_path):
    draw = np.random.default_rng(0)
    outputs = {"label_ids": draw.integers(0, 2, 20), "probabilities": draw.random((20, 2), np.float32)}
    predictor = object.__new__(Predictor)
    predictor.task = types.SimpleNamespace(label_names=labels)
    many, each = Predictions(outputs, labels), predictions_of(outputs, labels)
    assert len(many) == 20 and list(many) == each and [many[place] for place in range(20)] == each
    asked = [("text",)] * 7 + [None] + [("text",)] * 13
    for ending in ("tsv", "csv", "jsonl"):
        for name, predictions in (("many", many), ("each", each)):
            write(str(tmp_path / f"{name}.{ending}"), predictor, [(asked, predictions)])
        found = (tmp_path / f"many.{ending}").read_bytes()
        assert found == (tmp_path / f"each.{ending}").read_bytes() and found.count(b"\n") == 21 + (ending != "jsonl")
    assert (many.plain_rows(",") is None) == (labels[0] != "a")


def test_other_networks_heads_and_tokenizers_are_left_to_the_network():
    network, task = make()
    tokenizer = OpenWordTokenizer(VOCABULARY)
    assert row_sums.find(network, task, tokenizer, 40) is not None
    assert row_sums.find(*make(make_task=MultiLabel), tokenizer, 40) is not None
    assert row_sums.find(network, task, OpenWordTokenizer(VOCABULARY, segmenter="jieba"), 40) is None
    assert row_sums.find(network, task, WordTokenizer(VOCABULARY), 40) is None
    for reading in (task.reading.with_pooling("max"), task.reading.with_pooling("attention")):
        assert row_sums.find(network, Classify(network.config, "abc", reading), tokenizer, 40) is None


@pytest.mark.parametrize(
    "flags",
    [{}, pytest.param({"task": "multi_label", "label_separator": "|"}, marks=pytest.mark.long)],
    ids=["classify", "multi_label"],
)
def test_a_run_answers_many_texts_as_it_answers_few(flags, tmp_path, monkeypatch):
    lines = [
        f"{label}\t{text} {n % 7}\n" for n in range(30) for label, text in (("sea", "harbour keel"), ("rail", "track"))
    ]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "".join(lines), "utf-8")
    (tmp_path / "numbers.json").write_text('{"hidden_dim": 8, "buckets": 50, "word_ngrams": 2}', "utf-8")
    words = {"input_file": tmp_path / "train.tsv", "tokenizer": "word_characters", "vocab_size": 60}
    assert invoke("train_vocabulary", **words, output_file=tmp_path / "words") == 0
    made = {
        "task": "classify",
        "train_file": tmp_path / "train.tsv",
        "model_dir": tmp_path / "run",
        "max_seq_length": 16,
    } | flags
    numbers = {"model_config_file": tmp_path / "numbers.json", "num_train_epochs": 2, "jit_compile": "false"}
    assert (
        invoke("finetune", init_checkpoint="new:fasttext_classifier", vocab_file=tmp_path / "words", **made, **numbers)
        == 0
    )
    predictor = load_predictor(str(tmp_path / "run"))
    asked, count = [(text,) for text in TEXTS * 8], []
    expected = answer.Predictor.predict(predictor, asked)
    found = predictor.predict(asked, progress=count.append)
    for one, other in zip(found, expected, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert sum(count) == len(asked) and predictor.sums is not None
    assert predictor.predict([]) == []
    monkeypatch.setattr(row_sums.RowSums, "logits", lambda self, texts: np.full((len(texts), 2), 0.5, np.float32))
    assert len(set(predictor.predict(asked[:1])[0].probabilities.values())) == 1  # what is there answers one text, too
    monkeypatch.undo()
    (tmp_path / "asked.txt").write_text("\n".join([*TEXTS[3:], ""] * 12), "utf-8")
    question = {"model_dir": tmp_path / "run", "input_file": tmp_path / "asked.txt"}
    assert invoke("predict", **question, output_file=tmp_path / "sums.tsv") == 0
    monkeypatch.setattr(row_sums, "FEWEST", 10**9)
    assert invoke("predict", **question, output_file=tmp_path / "network.tsv") == 0
    assert (tmp_path / "sums.tsv").read_text("utf-8") == (tmp_path / "network.tsv").read_text("utf-8")
