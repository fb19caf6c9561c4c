"""Compiled steps of word vectors against the gradients of the objectives, and a learner of them against one of operations."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.windows import WordWindows, noise_distribution
from xmodels.kernels.word_learner import WordLearner
from xmodels.models.fasttext import FastText, FastTextConfig
from xmodels.models.skip_gram import SkipGram, SkipGramConfig
from xmodels.objectives.base import together
from xmodels.objectives.hierarchical_softmax import HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.word_windows import Center, Contexts
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

pytestmark = pytest.mark.extra("numba")

WORDS, WIDTH, ROWS, PLACES, REACH, NEGATIVES, TURNS = 30, 20, 3, 64, 5, 32, 7
PREDICTIONS = {"skip_gram": Contexts(), "cbow": Center(), "true_gradient": Center(True)}
LOSSES = ("negatives", "tree", "both")


def make_objective(kind: str, predict):
    negatives, tree = NegativeSampling(predict, REACH, 4), HierarchicalSoftmax(predict, REACH, WORDS - 1, WIDTH)
    return {"negatives": negatives, "tree": tree, "both": together(tree, negatives)}[kind]


def make_backbone(name: str):
    if name == "skip_gram":
        return SkipGram(SkipGramConfig(WORDS, hidden_dim=WIDTH)).initialize()
    return FastText(FastTextConfig(WORDS, hidden_dim=WIDTH, buckets=25)).initialize()


def make_batch(draw, places: int = PLACES) -> dict[str, np.ndarray]:
    """Rows of which the last ten places have no word; words occur several times, also among the negatives of their block."""
    centers, place = draw.integers(0, WORDS, (ROWS, places)), np.arange(places)
    reach, real = draw.integers(1, REACH + 1, centers.shape), place < places - 10
    blocks = 1 if places % 32 else places // 32
    nodes, codes = draw.integers(0, WORDS - 1, (WORDS, TURNS)), draw.integers(-1, 2, (WORDS, TURNS))
    return {
        "token_ids": centers.astype("int32"), "padding_mask": np.broadcast_to(real, centers.shape),
        "center_ids": centers.astype("int32"), "window_starts": np.where(real, np.maximum(place - reach, 0), 0).astype("int32"),
        "window_ends": np.where(real, np.minimum(place + reach + 1, places - 10), 0).astype("int32"),
        "negative_ids": draw.integers(0, WORDS, (ROWS, blocks * NEGATIVES)).astype("int32"),
        "node_ids": nodes[centers].astype("int32"), "node_codes": codes[centers].astype("int32"),
        "node_shares": draw.random((WORDS, TURNS))[centers].astype("float32"),
        "row_ids": draw.integers(0, WORDS + 25, (ROWS, 150)).astype("int32"),
        "row_places": np.sort(draw.integers(0, places + 1, (ROWS, 150)), axis=1).astype("int32"),
    }  # fmt: skip


def made(backbone: str, kind: str, predict):
    """A network and an objective with large random weights, and the compiled steps of both."""
    from xmodels.kernels.word_steps import WordSteps

    network, objective = make_backbone(backbone), make_objective(kind, predict)
    draw = np.random.default_rng(1)
    for variable in (*network.trainable_variables, *objective.trainable_variables):
        variable.assign(draw.normal(size=variable.shape))
    return network, objective, lambda threads: WordSteps(network, objective, threads)


@pytest.mark.parametrize("backbone", ["skip_gram", "fasttext"])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("predict", PREDICTIONS)
def test_a_step_is_that_of_the_gradients_of_the_objective(predict, kind, backbone):
    for places in (PLACES, 50):  # whole blocks, and a row that is one block
        batch = make_batch(np.random.default_rng(0), places)
        if backbone == "skip_gram":
            batch = {name: value for name, value in batch.items() if not name.startswith("row_")}
        network, objective, make_steps = made(backbone, kind, PREDICTIONS[predict])
        steps = make_steps(2)
        variables = list(steps.tables.variables.values())
        with tf.GradientTape() as tape:
            losses, _ = objective.score({}, {name: tf.constant(value) for name, value in batch.items()}, network)
            total = sum(loss for loss, _ in losses.values())
        gradients = tape.gradient(total, [v.value for v in variables])
        expected = [
            v.numpy() - (0.0 if g is None else 0.5 * tf.convert_to_tensor(g).numpy())
            for v, g in zip(variables, gradients, strict=True)
        ]
        with steps.tables.arrays() as weights:
            (found,) = steps.run(weights, batch, np.array([0.5]))
        np.testing.assert_allclose(found, [[float(x) for x in pair] for pair in losses.values()], rtol=1e-5)
        for variable, value in zip(variables, expected, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, atol=2e-4, rtol=1e-4)
        assert any(np.abs(v.numpy() - e).max() == 0 for v, e in zip(variables, expected, strict=True)) == (
            kind == "tree"
        )
        counted = [[float(x) for x in pair] for pair in objective.counts(batch).values()]
        np.testing.assert_array_equal(steps.counts(batch, 1), [counted])


@pytest.mark.parametrize("kind", LOSSES)
def test_the_number_of_threads_changes_no_bit(kind):
    found = []
    for threads in (1, 2):
        _, _, make_steps = made("fasttext", kind, Contexts())
        steps, draw = make_steps(threads), np.random.default_rng(0)
        with steps.tables.arrays() as weights:
            for _ in range(3):
                steps.run(weights, make_batch(draw), np.array([0.01]))
        found.append([v.numpy() for v in steps.tables.variables.values()])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", LOSSES)
def test_steps_at_once_are_those_one_by_one(kind):
    found, draw = [], np.random.default_rng(0)
    batches, rates = [make_batch(draw) for _ in range(3)], np.array([0.01, 0.03, 0.02])
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    for at_once in (False, True):
        _, _, make_steps = made("fasttext", kind, Center())
        steps = make_steps(1)
        with steps.tables.arrays() as weights:
            if at_once:
                losses = steps.run(weights, joined, rates)
            else:
                losses = np.concatenate([
                    steps.run(weights, b, r[None]) for b, r in zip(batches, rates, strict=True)
                ])  # fmt: skip
        found.append([losses, *(v.numpy() for v in steps.tables.variables.values())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_that_is_not_finite_changes_nothing():
    network, _, make_steps = made("skip_gram", "negatives", Contexts())
    network.words.embeddings.assign(np.full((WORDS, WIDTH), np.nan))
    before, steps = network.contexts.embeddings.numpy(), make_steps(1)
    batch = {n: x for n, x in make_batch(np.random.default_rng(0)).items() if not n.startswith("row_")}
    with steps.tables.arrays() as weights:
        losses = steps.run(weights, batch, np.array([0.1]))
        assert not np.isfinite(losses[..., 0]).any()
    np.testing.assert_array_equal(network.contexts.embeddings.numpy(), before)


def test_exponentials_are_those_of_numpy():
    from xmodels.kernels import vectors as kernels

    scores = np.concatenate([np.linspace(-80, 80, 20_001), np.log(2.0) * np.arange(-9, 10), [0.0]]).astype("float32")
    found = np.empty_like(scores)
    kernels.exponentials(scores, np.empty(len(scores), np.int32), found)
    np.testing.assert_allclose(found, np.exp(-np.abs(scores.astype("float64"))), rtol=1e-5)


def learner_of(kind: type, seed: int = 3):
    """A learner of skip-gram on runs of 40 words, four of them a batch, and its batches."""
    draw = np.random.default_rng(0)
    runs = np.pad(draw.integers(0, WORDS, (50, 40)), [[0, 0], [0, 1]])
    source = ArraySource({"token_ids": runs, "segment_lengths": np.tile([[41, 0]], (50, 1))}, "words")
    counts = np.bincount(runs[:, :40].ravel(), minlength=WORDS)
    frame = WordWindows(40, counts / counts.sum(), np.full(WORDS, 0.8), noise_distribution(counts), REACH, NEGATIVES)
    batches = Batches(source, frame, 4, seed=seed)
    strategy = distribution.choose("one_device")
    numbers = Optimization(
        num_steps=30, learning_rate=0.05, num_warmup_steps=4, optimizer="sgd", schedule="linear", min_lr_ratio=0.1
    )
    with strategy.scope():
        backbone = make_backbone("skip_gram")
        backbone.words.embeddings.assign(draw.normal(size=(WORDS, WIDTH)))
        objective = make_objective("negatives", Contexts())
        learner = kind(strategy, backbone, single(objective, batches), numbers.make_optimizer(), 0.0)
    return learner, batches


def read(learner, batches, consumed: int = 0):
    def dataset(context):
        return batches.training(consumed, per_batch=batches.batch_size * learner.batches_at_once)

    return iter(learner.strategy.distribute_datasets_from_function(dataset))


def weights_of(learner):
    return [v.numpy() for v in learner.backbone.trainable_variables]


def test_a_learner_of_compiled_steps_does_what_one_of_operations_does():
    found = {}
    for kind in (Learner, WordLearner):
        learner, batches = learner_of(kind)
        iterator = read(learner, batches)
        totals = [learner.train(iterator, tf.constant(count))[0].numpy() for count in (5, 9)]
        assert learner.step == 14 and learner.names == [
            "negative_sampling", "real_words", "real_pairs", "skipped",
        ]  # fmt: skip
        found[kind] = [*weights_of(learner), *totals]
    for one, other in zip(found[Learner], found[WordLearner], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5, rtol=1e-5)


def test_a_run_of_compiled_steps_goes_on_in_the_middle_of_what_it_read_at_once():
    whole, batches = learner_of(WordLearner)
    assert whole.batches_at_once > 20
    whole.train(read(whole, batches), tf.constant(20))
    first, _ = learner_of(WordLearner)
    first.train(read(first, batches), tf.constant(7))
    second, _ = learner_of(WordLearner)
    for mine, given in zip(second.backbone.trainable_variables, weights_of(first), strict=True):
        mine.assign(given)
    second.optimizer.iterations.assign(7)
    second.train(read(second, batches, 7 * batches.batch_size), tf.constant(13))
    for one, other in zip(weights_of(whole), weights_of(second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fault_is_skipped_counted_and_told():
    learner, batches = learner_of(WordLearner)
    iterator, before = read(learner, batches), learner.backbone.words.embeddings.numpy()
    learner.backbone.words.embeddings.assign(np.full_like(before, np.inf))
    totals, _ = learner.train(iterator, tf.constant(2))
    assert learner.count_skipped(totals.numpy()) == 2 and learner.guard.skipped_in_row == 2
    assert learner.step == 2 and len(learner.guard.kept) == 2
    learner.backbone.words.embeddings.assign(before)
    totals, _ = learner.train(iterator, tf.constant(1))
    assert learner.count_skipped(totals.numpy()) == 0 and learner.guard.skipped_in_row == 0
