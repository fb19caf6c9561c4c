"""Skip-gram and CBOW in windows, against walks over pairs as word2vec.c does them; trees against gensim's."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.text import huffman
from xmodels.layers.word_windows import Windows
from xmodels.models.skip_gram import SkipGram, SkipGramConfig
from xmodels.objectives.hierarchical_softmax import MOST, HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.word_windows import Center, Contexts

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/word2vec_training/huffman.json"
WORDS, WIDTH, REACH, PLACES, NEGATIVES = 20, 6, 3, 64, 4  # two blocks
COUNTS = np.arange(WORDS, 0, -1) ** 2


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@pytest.fixture(scope="module")
def batch():
    draw = np.random.default_rng(0)
    place, reach = np.arange(PLACES), draw.integers(1, REACH + 1, (2, PLACES))
    real = place < 50
    centers = draw.integers(0, WORDS, (2, PLACES))
    nodes, codes = huffman.paths(COUNTS)
    values = {
        "center_ids": centers, "window_starts": np.where(real, np.maximum(place - reach, 0), 0),
        "window_ends": np.where(real, np.minimum(place + reach + 1, 50), 0), "node_ids": nodes[centers], "node_codes": codes[centers],
        "negative_ids": draw.integers(0, WORDS, (2, 2 * NEGATIVES)),
    }  # fmt: skip
    found = {name: tf.constant(value, tf.int32) for name, value in values.items()}
    return {**found, "node_shares": tf.zeros(found["node_ids"].shape)}


def walk(batch):
    """Yields (row, place, the places of its window) of every word."""
    for row, place in np.ndindex(2, 50):
        window = range(int(batch["window_starts"][row, place]), int(batch["window_ends"][row, place]))
        yield row, place, [other for other in window if other != place]


@pytest.fixture(scope="module")
def backbone():
    backbone = SkipGram(SkipGramConfig(WORDS, WIDTH)).initialize()
    draw = np.random.default_rng(1)
    backbone.words.embeddings.assign(draw.normal(size=(WORDS, WIDTH)))
    backbone.contexts.embeddings.assign(draw.normal(size=(WORDS, WIDTH)))
    return backbone


def slopes(objective, backbone, batch, tables):
    """The loss, and how one step of gradient descent moves tables."""
    with tf.GradientTape() as tape:
        (loss, weight), *_ = objective.score({}, batch, backbone)[0].values()
    gradients = tape.gradient(loss, [table.embeddings.value for table in tables])
    return float(loss), float(weight), [-tf.convert_to_tensor(g).numpy() for g in gradients]


def outputs_of(batch, row, place, backbone, nodes):
    """The rows of outputs that a prediction of the word at a place meets: (row, label, rate), of negatives or of nodes."""
    word = int(batch["center_ids"][row, place])
    if nodes:
        for node, code in zip(
            batch["node_ids"][row, place].numpy(), batch["node_codes"][row, place].numpy(), strict=True
        ):
            if code >= 0:
                yield int(node), 1.0 - code, 1.0  # word2vec.c: label = 1 - code
        return
    yield word, 1.0, 1.0
    block = slice(NEGATIVES, None) if place >= PLACES // 2 else slice(NEGATIVES)
    for negative in batch["negative_ids"][row, block].numpy():
        if negative != word:
            yield int(negative), 0.0, 5 / NEGATIVES


@pytest.mark.parametrize("tree", [False, True], ids=["negative_sampling", "hierarchical_softmax"])
@pytest.mark.parametrize("true_gradient", [False, True])
def test_a_step_of_cbow_is_that_of_word2vec(tree, true_gradient, batch, backbone):
    predict = Center(true_gradient)
    objective = HierarchicalSoftmax(predict, REACH, WORDS - 1, WIDTH) if tree else NegativeSampling(predict, REACH, 5)
    table = objective.nodes if tree else backbone.contexts
    table.embeddings.assign(np.random.default_rng(2).normal(size=table.embeddings.shape))
    words, outputs = backbone.words.embeddings.numpy(), table.embeddings.numpy()
    moved, loss = [np.zeros_like(words), np.zeros_like(outputs)], 0.0
    for row, place, window in walk(batch):
        ids = batch["center_ids"].numpy()[row, window]
        hidden, error = words[ids].mean(axis=0), np.zeros(WIDTH)
        for output, label, rate in outputs_of(batch, row, place, backbone, tree):
            score = hidden @ outputs[output]
            loss -= rate * np.log(sigmoid(score if label else -score))
            slope = rate * (label - sigmoid(score))
            error += slope * outputs[output]
            moved[1][output] += slope * hidden
        np.add.at(moved[0], ids, error / len(ids) if true_gradient else error)
    found, weight, changes = slopes(objective, backbone, batch, [backbone.words, table])
    assert (found, weight) == (pytest.approx(loss, rel=1e-5), 100)
    for change, expected in zip(changes, moved, strict=True):
        np.testing.assert_allclose(change, expected, atol=2e-4)


@pytest.mark.parametrize("tree", [False, True], ids=["negative_sampling", "hierarchical_softmax"])
def test_a_step_of_skip_gram_is_that_of_word2vec(tree, batch, backbone):
    objective = (
        HierarchicalSoftmax(Contexts(), REACH, WORDS - 1, WIDTH) if tree else NegativeSampling(Contexts(), REACH, 5)
    )
    table = objective.nodes if tree else backbone.contexts
    table.embeddings.assign(np.random.default_rng(2).normal(size=table.embeddings.shape))
    words, outputs = backbone.words.embeddings.numpy(), table.embeddings.numpy()
    moved, loss, count = [np.zeros_like(words), np.zeros_like(outputs)], 0.0, 0
    centers = batch["center_ids"].numpy()
    for row, place, window in walk(batch):
        for other in window:
            # By negatives a word predicts those of its window; through a tree it is predicted by them.
            reads, predicts = (other, place) if tree else (place, other)
            block = place  # whose negatives count
            count += 1
            for output, label, rate in outputs_of(batch, row, predicts, backbone, tree):
                if not tree and not label:
                    continue
                moved, loss = _add(moved, loss, words, outputs, centers[row, reads], output, label, rate)
            if not tree:
                half = slice(NEGATIVES, None) if block >= PLACES // 2 else slice(NEGATIVES)
                for negative in batch["negative_ids"][row, half].numpy():
                    if negative != centers[row, other]:
                        moved, loss = _add(
                            moved, loss, words, outputs, centers[row, place], negative, 0.0, 5 / NEGATIVES
                        )
    found, weight, changes = slopes(objective, backbone, batch, [backbone.words, table])
    assert (found, weight) == (pytest.approx(loss, rel=1e-5), count)
    for change, expected in zip(changes, moved, strict=True):
        np.testing.assert_allclose(change, expected, atol=1e-3)


def test_a_node_that_all_predictions_pass_moves_as_far_as_by_some_of_them(batch, backbone):
    objective = HierarchicalSoftmax(Center(), REACH, WORDS - 1, WIDTH)
    objective.nodes.embeddings.assign(np.random.default_rng(2).normal(size=objective.nodes.embeddings.shape))
    passed = np.where(batch["node_ids"].numpy() == WORDS - 2, 1.0, 0.0).astype("float32")  # the root
    _, _, (free,) = slopes(objective, backbone, batch, [objective.nodes])
    _, _, (damped,) = slopes(objective, backbone, {**batch, "node_shares": passed}, [objective.nodes])
    np.testing.assert_allclose(damped[:-1], free[:-1], atol=1e-5)
    np.testing.assert_allclose(damped[-1], free[-1] * MOST / 100, atol=1e-4)  # of 100 predictions


def _add(moved, loss, words, outputs, word, output, label, rate):
    score = words[word] @ outputs[output]
    slope = rate * (label - sigmoid(score))
    moved[0][word] += slope * outputs[output]
    moved[1][output] += slope * words[word]
    return moved, loss - rate * np.log(sigmoid(score if label else -score))


def test_rows_of_several_blocks_see_what_one_block_sees(batch):
    states = np.random.default_rng(3).normal(size=(2, PLACES, WIDTH)).astype("float32")
    several = Windows(batch["window_starts"], batch["window_ends"], REACH)
    sums = several.rows(ops.matmul(several.mask, several.nearby(states)))
    expected = np.zeros_like(states)
    for row, place, window in walk(batch):
        expected[row, place] = states[row, window].sum(axis=0)
    np.testing.assert_allclose(sums, expected, atol=1e-5)
    sides = ops.sum(several.sides(states) * several.side_mask[..., None], axis=2)
    np.testing.assert_allclose(sides, expected, atol=1e-5)
    np.testing.assert_array_equal(several.sizes, several.rows(ops.sum(several.mask, axis=-1)))


def test_trees_are_as_deep_as_those_of_gensim_and_free_of_prefixes():
    golden = json.loads(GOLDEN.read_text("utf-8"))
    counts = np.array(golden["counts"])
    nodes, codes = huffman.paths(counts)
    lengths, theirs = (codes >= 0).sum(axis=1), np.array([len(code) for code in golden["huffman_codes"]])
    assert lengths @ counts == theirs @ counts  # the least there is
    ways = ["".join(map(str, code[code >= 0])) for code in codes]
    assert len(set(ways)) == len(ways) and not any(a != b and b.startswith(a) for a in ways for b in ways)
    shares = counts / counts.sum()
    entropy = -(shares * np.log2(shares)).sum()
    assert entropy <= lengths @ shares < entropy + 1
    assert set(nodes[codes >= 0]) == set(range(len(counts) - 1))


def test_probabilities_of_all_ways_sum_to_one_and_words_without_counts_have_none():
    counts = np.array([5, 0, 3, 3, 1, 0, 9])
    nodes, codes = huffman.paths(counts)
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(10, WIDTH)) @ draw.normal(size=(WIDTH, len(counts)))
    on_way = sigmoid(scores[:, nodes] * (1.0 - 2.0 * codes))  # (10, V, T)
    found = np.where(codes >= 0, on_way, 1.0).prod(axis=-1)
    np.testing.assert_allclose(found[:, counts > 0].sum(axis=1), 1.0, atol=1e-6)
    assert (codes[counts == 0] < 0).all()
