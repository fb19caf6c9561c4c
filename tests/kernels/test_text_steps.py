"""Compiled steps of fastText's classifier against the gradients of the task, and a learner of them against one of operations."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.arrays import CodedArray
from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import Buckets
from data_pipelines.errors import DataError
from data_pipelines.units.characters import BEGIN_SENTENCE, END_SENTENCE, spell, spell_mark
from xmodels.interfaces.reading import reading_without_system
from xmodels.kernels.text_learner import TextLearner
from xmodels.models.fasttext_classifier import FastTextClassifier, FastTextClassifierConfig
from xmodels.tasks.classify.task import Classify
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

pytestmark = pytest.mark.extra("numba")

WORDS = ["", "<unk>", "<s>", "</s>", "a", "Über", "naïve", "good", "日本語", "word" * 20, "-", "🙂b"]
ROWS, LENGTH, LABELS = 8, 9, 3
KINDS = {  # fields of the configuration
    "words": {"buckets": 0},
    "runs": {"buckets": 40, "word_ngrams": 3},
    "parts": {"buckets": 40, "shortest_ngram": 0, "longest_ngram": 4},
    "both": {"buckets": 2_000_003, "shortest_ngram": 3, "longest_ngram": 6, "word_ngrams": 2},
}


def make(kind: str, class_weights=None):
    """A network and a task with large random weights."""
    network = FastTextClassifier(FastTextClassifierConfig(len(WORDS), hidden_dim=5, **KINDS[kind])).initialize()
    task = Classify(network.config, "abc", reading_without_system(FastTextClassifier), class_weights)
    task.run(network, {name: tf.constant(value) for name, value in batch_of(np.random.default_rng(9)).items()})
    draw = np.random.default_rng(1)
    for variable in (*network.trainable_variables, *task.trainable_variables):
        variable.assign(draw.normal(size=variable.shape))
    return network, task


def batch_of(draw, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Texts of 0 to all words between marks; the last text does not count."""
    spelled = spell(WORDS)
    spelled[0], spelled[2], spelled[3] = 0, spell_mark(BEGIN_SENTENCE), spell_mark(END_SENTENCE)
    ids, sizes = draw.integers(4, len(WORDS), (rows, LENGTH)), draw.integers(2, LENGTH + 1, rows)
    ids[draw.random(ids.shape) < 0.2] = 1
    place = np.arange(LENGTH)
    ids = np.where(place == 0, 2, np.where(place == sizes[:, None] - 1, 3, np.where(place < sizes[:, None], ids, 0)))
    characters = spelled[ids]
    characters[ids == 1] = spell(["new"])[0]  # words that the vocabulary lacks have parts
    return {
        "token_ids": ids.astype("int32"), "padding_mask": place < sizes[:, None], "character_ids": characters.astype("int32"),
        "labels": draw.integers(0, LABELS, rows).astype("int32"),
        "example_weights": (np.arange(rows) < rows - 1).astype("float32"),
    }  # fmt: skip


def optimizer_of(name: str, rate: float = 0.5):
    numbers = Optimization(num_steps=100, learning_rate=rate, num_warmup_steps=0, optimizer=name, schedule="constant")
    return numbers.make_optimizer()


def steps_of(network, task, optimizer, threads: int = 1):
    from xmodels.kernels.text_steps import TextSteps

    optimizer.build(network.trainable_variables + task.trainable_variables)
    return TextSteps(network, task, optimizer, threads)


@pytest.mark.parametrize("class_weights", [None, (1.0, 3.0, 0.5)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_descent_is_that_of_the_gradients_of_the_task(kind, class_weights):
    batch, (network, task) = batch_of(np.random.default_rng(0)), make(kind, class_weights)
    variables = network.trainable_variables + task.trainable_variables
    features = {name: tf.constant(value) for name, value in batch.items()}
    with tf.GradientTape() as tape:
        _, losses, metrics = task.run(network, features, training=True)
        total, weight = losses["classify"]
        loss = total / weight
    gradients = tape.gradient(loss, [v.value for v in variables])
    expected = [v.numpy() - 0.5 * tf.convert_to_tensor(g).numpy() for v, g in zip(variables, gradients, strict=True)]
    steps = steps_of(network, task, optimizer_of("sgd"))
    with steps.tables.arrays() as weights:
        (found,) = steps.run(weights, batch, np.array([0.5], np.float32), 0)
    pairs = [[float(x) for x in pair] for pair in (losses["classify"], metrics["accuracy"])]
    np.testing.assert_allclose(found, pairs, rtol=1e-5)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, atol=2e-6)
    (real, _), *others = task.counts(features).values()
    assert not others
    np.testing.assert_array_equal(steps.counts(batch, 1), [[[float(real)] * 2]])  # padding is not computed


@pytest.mark.parametrize("name", ["sgd", "lazy_adam"])
def test_the_number_of_threads_changes_no_bit_and_steps_at_once_are_those_one_by_one(name):
    found = []
    draw = np.random.default_rng(0)
    batches, rates = [batch_of(draw) for _ in range(3)], np.array([0.1, 0.3, 0.2], np.float32)
    joined = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
    for threads, at_once in ((1, False), (2, False), (2, True)):
        network, task = make("both")
        steps = steps_of(network, task, optimizer_of(name), threads)
        with steps.tables.arrays() as weights:
            if at_once:
                losses = steps.run(weights, joined, rates, 0)
            else:
                losses = np.concatenate([steps.run(weights, b, rates[n : n + 1], n) for n, b in enumerate(batches)])
        found.append([losses, *(v.numpy() for v in steps.tables.variables.values())])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_loss_that_is_not_finite_changes_nothing():
    network, task = make("runs")
    task.head.kernel.assign(np.full(task.head.kernel.shape, np.nan))
    before, steps = network.rows.table.embeddings.numpy(), steps_of(network, task, optimizer_of("sgd"))
    with steps.tables.arrays() as weights:
        losses = steps.run(weights, batch_of(np.random.default_rng(0)), np.array([0.1], np.float32), 0)
    assert np.isnan(losses[0, 0, 0])
    np.testing.assert_array_equal(network.rows.table.embeddings.numpy(), before)


@pytest.mark.parametrize(("name", "most"), [("token_ids", len(WORDS)), ("labels", LABELS)])
def test_numbers_that_no_row_has_are_told(name, most):
    steps, batch = steps_of(*make("runs"), optimizer_of("sgd")), batch_of(np.random.default_rng(0))
    batch[name].flat[0] = most
    with steps.tables.arrays() as weights, pytest.raises(DataError, match=f"{name}: found 0 to {most}, expected 0 to"):
        steps.run(weights, batch, np.array([0.1], np.float32), 0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["lazy_adam", "sgd"])
def test_a_learner_of_compiled_steps_does_what_one_of_operations_does(name):
    for one, other in zip(learnt_by(Learner, name), learnt_by(TextLearner, name), strict=True):
        np.testing.assert_allclose(other, one, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("grouping", [None, Buckets((4, LENGTH))])
def test_codes_and_many_batches_at_once_change_no_bit_of_what_is_learnt(grouping):
    found, others = (learnt_by(TextLearner, "lazy_adam", grouping, at_once) for at_once in (None, 3))
    for one, other in zip(found[:2], others[:2], strict=True):  # totals, whose sums have another order
        np.testing.assert_allclose(other, one, rtol=1e-12)
    for one, other in zip(found[2:], others[2:], strict=True):
        np.testing.assert_array_equal(other, one)


def learnt_by(kind: type, name: str, grouping=None, at_once: int | None = None) -> list[np.ndarray]:
    """Totals of two calls, weights, variables of the optimizer and the place in the data of a learner.

    With `at_once` it reads codes of words, and so many batches at a time.
    """
    arrays = batch_of(np.random.default_rng(2), rows=30)
    if at_once:
        words, codes = np.unique(arrays["character_ids"].reshape(-1, 50), axis=0, return_inverse=True)
        arrays["character_ids"] = CodedArray(codes.reshape(30, LENGTH).astype(np.int32), words)
    batches = Batches(ArraySource(arrays, "texts"), lambda features: features, 4, seed=3, grouping=grouping)
    strategy = distribution.choose("one_device")
    with strategy.scope():
        network, task = make("both")
        learner = kind(strategy, network, single(task, batches), optimizer_of(name, 0.05), 0.0)
    reading = {"per_batch": 4 * at_once, "decoded": False} if at_once else {}
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: batches.training(**reading)))
    totals = [learner.train(iterator, tf.constant(count))[0].numpy() for count in (5, 9)]
    assert learner.step == 14 and learner.names == ["classify", "accuracy", "real_tokens", "skipped"]
    weights = [v.numpy() for v in network.trainable_variables + task.trainable_variables]
    (stream,) = learner.passes.values()
    for total in totals:
        total[2, 1] = 0.0  # how many tokens there are with padding, which compiled steps do not count
    return [*totals, *weights, *(v.numpy() for v in learner.optimizer.variables), stream.cursor.numpy()]
