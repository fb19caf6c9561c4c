"""The chain over tags against the sum over all paths, its limits, and what it may never say."""

import itertools
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers.crf import LinearChain

ROOT = pathlib.Path(__file__).parents[2]
MAY_START = [True, True, False, True]  # O, B-X, I-X, B-Y
MAY_FOLLOW = [[True, True, False, True], [True] * 4, [True] * 4, [True, True, False, True]]
WORDS = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0] * 7], bool)
OPENS = np.array([True, False, True, True])
LABELS = np.array([[0, 1, 2, 3, 2, 0, 1], [2, 1, 2, 0, 0, 0, 0], [1] * 3 + [1] + [2] * 3, [3] * 7])  # may be, on words


def chain(free=False, seed=0):
    made = LinearChain([True] * 4, [[True] * 4] * 4) if free else LinearChain(MAY_START, MAY_FOLLOW)
    rng = np.random.default_rng(seed)
    for weight in made.weights:
        weight.assign(rng.normal(size=weight.shape))
    return made


def emissions(seed=1, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=(*WORDS.shape, 4))).astype(np.float32)


def paths(made, scores, row):
    """{tags: score} of all paths of a row that may be, in float64."""
    start, follow = (ops.convert_to_numpy(w).astype(np.float64) for w in (made.start_scores, made.transition_scores))
    places = np.flatnonzero(WORDS[row])
    for tags in itertools.product(range(4), repeat=len(places)):
        total = sum(float(scores[row, place, tag]) for place, tag in zip(places, tags, strict=True))
        if tags and OPENS[row]:
            if not made._may_start[tags[0]]:
                continue
            total += start[tags[0]]
        if all(made._may_follow[a][b] for a, b in itertools.pairwise(tags)):
            yield tags, total + sum(follow[a, b] for a, b in itertools.pairwise(tags))


def brute_force(made, scores):
    """Of each row the logarithm of the sum, the best path and the marginals (W, C)."""
    for row in range(len(WORDS)):
        found = dict(paths(made, scores, row))
        values = np.array(list(found.values()))
        total = values.max() + np.log(np.exp(values - values.max()).sum())
        each = np.zeros((int(WORDS[row].sum()), 4))
        for tags, value in found.items():
            for place, tag in enumerate(tags):
                each[place, tag] += np.exp(value - total)
        yield found, total, max(found, key=found.get), each


@pytest.mark.parametrize("free", [False, True])
def test_loss_best_path_and_marginals_are_those_of_all_paths(free):
    made, scores = chain(free), emissions()
    labels = LABELS
    losses = ops.convert_to_numpy(made.loss(scores, labels, WORDS, OPENS))
    tags, likely = map(ops.convert_to_numpy, made.decode(scores, WORDS, OPENS))
    for row, (found, total, best, each) in enumerate(brute_force(made, scores)):
        gold = found[tuple(labels[row, WORDS[row]].tolist())]
        np.testing.assert_allclose(losses[row], total - gold, atol=1e-5)
        assert tuple(tags[row, WORDS[row]].tolist()) == best
        np.testing.assert_allclose(likely[row, WORDS[row]], each[np.arange(len(best)), list(best)], atol=1e-5)
    assert losses[3] == 0.0 and not tags[~WORDS].any() and not likely[~WORDS].any()


def test_the_gradient_is_that_of_the_loss():
    made, labels, numbers = chain(), LABELS, emissions().astype(np.float64)

    def loss(values, weights):
        for weight, value in zip(made.weights, weights, strict=True):
            weight.assign(value)
        expected = list(brute_force(made, values))
        return sum(t - f[tuple(labels[r, WORDS[r]].tolist())] for r, (f, t, _, _) in enumerate(expected))

    start = [ops.convert_to_numpy(w).astype(np.float64) for w in made.weights]
    given = tf.constant(emissions())
    with tf.GradientTape() as tape:
        tape.watch(given)
        total = tf.reduce_sum(made.loss(given, labels, WORDS, OPENS))
    found = [
        g.numpy() for g in map(tf.convert_to_tensor, tape.gradient(total, [given, *[w.value for w in made.weights]]))
    ]
    rng, step = np.random.default_rng(3), 1e-4
    for place, value in enumerate([numbers, *start]):
        for index in {tuple(rng.integers(value.shape)) for _ in range(12)}:
            sides = []
            for sign in (1, -1):
                moved = [x.copy() for x in (numbers, *start)]
                moved[place][index] += sign * step
                sides.append(loss(moved[0], moved[1:]))
            np.testing.assert_allclose(found[place][index], (sides[0] - sides[1]) / (2 * step), atol=2e-3)


def test_scores_without_bounds_give_finite_gradients_and_forbidden_steps_none():
    made, labels = chain(), LABELS
    for scale in (1e4, 1e8):
        given = tf.constant(emissions(scale=scale))
        with tf.GradientTape() as tape:
            tape.watch(given)
            losses = made.loss(given, labels, WORDS, OPENS)
            total = tf.reduce_sum(losses)
        found = [
            tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, [given, *[w.value for w in made.weights]])
        ]
        assert np.isfinite(losses.numpy()).all() and all(np.isfinite(each).all() for each in found)
        assert not found[2][~np.array(MAY_FOLLOW)].any() and not found[1][~np.array(MAY_START)].any()


def test_what_may_not_be_is_never_said_whatever_the_scores():
    made = chain()
    for seed in range(8):
        scores = emissions(seed, 10.0**seed)
        scores[..., 2] += 10.0**seed  # I-X is the likeliest everywhere
        tags, _ = map(ops.convert_to_numpy, made.decode(scores, WORDS, OPENS))
        for row in range(3):
            said = tags[row, WORDS[row]]
            assert MAY_START[said[0]] or not OPENS[row]
            assert all(MAY_FOLLOW[a][b] for a, b in itertools.pairwise(said))


def test_without_transitions_it_is_a_softmax():
    made, scores = LinearChain([True] * 4, [[True] * 4] * 4), emissions(scale=3.0)
    labels = np.random.default_rng(2).integers(0, 4, WORDS.shape)
    each = keras.losses.sparse_categorical_crossentropy(labels, scores, from_logits=True)
    expected = ops.sum(ops.where(WORDS, each, 0.0), axis=1)
    np.testing.assert_allclose(made.loss(scores, labels, WORDS, OPENS), expected, atol=2e-6)
    tags, likely = map(ops.convert_to_numpy, made.decode(scores, WORDS, OPENS))
    np.testing.assert_array_equal(tags[WORDS], scores.argmax(-1)[WORDS])
    np.testing.assert_allclose(likely[WORDS], ops.convert_to_numpy(ops.softmax(scores)).max(-1)[WORDS], atol=1e-6)


def test_what_is_passed_over_changes_nothing():
    made, scores, labels = chain(), emissions(), LABELS
    noisy = np.where(WORDS[..., None], scores, 1e6).astype(np.float32)
    others = np.where(WORDS, labels, 3 - labels)
    near = made.loss(scores, labels, WORDS, OPENS)
    np.testing.assert_array_equal(near, made.loss(noisy, others, WORDS, OPENS))
    pad = [(0, 0), (3, 5)]  # on both sides
    wide = np.pad(noisy, [*pad, (0, 0)], constant_values=-7.0), np.pad(others, pad), np.pad(WORDS, pad), OPENS
    np.testing.assert_allclose(near, made.loss(*wide), atol=1e-6)
    short, long = made.decode(scores, WORDS, OPENS), made.decode(wide[0], *wide[2:])
    np.testing.assert_array_equal(short[0], long[0][:, 3:-5])
    np.testing.assert_allclose(short[1], long[1][:, 3:-5], atol=1e-6)


def test_long_chains_lose_no_digits():
    made = chain()
    scores = np.tile(30.0 + emissions(4)[:1, :1], (1, 3000, 1)).astype(np.float32)
    decode = tf.function(made.decode, autograph=False)  # op by op it would take a minute
    _, likely = decode(tf.constant(scores), tf.ones((1, 3000), tf.bool), tf.constant([True]))
    np.testing.assert_allclose(likely[0, 100:2900], likely[0, 1500], atol=1e-6)


def test_it_computes_in_float32_under_a_policy_of_16_bits_and_compiles():
    labels, scores = LABELS, emissions()
    expected = chain().loss(scores, labels, WORDS, OPENS)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        made = chain()
    finally:
        keras.config.set_dtype_policy("float32")

    @tf.function(jit_compile=True)
    def compiled(given):
        with tf.GradientTape() as tape:
            losses = made.loss(given, labels, WORDS, OPENS)
            total = tf.reduce_sum(losses)
        return losses, tape.gradient(total, [w.value for w in made.weights]), made.decode(given, WORDS, OPENS)

    losses, gradients, (tags, _) = compiled(tf.constant(scores))
    assert losses.dtype == tf.float32 and all(g is not None for g in gradients)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    np.testing.assert_array_equal(tags, made.decode(scores, WORDS, OPENS)[0])


ELSEWHERE = """
import sys
sys.modules["tensorflow"] = None
import keras, numpy as np
from keras import ops
from xmodels.layers.crf import LinearChain
given = np.load(sys.argv[1])
made = LinearChain(given["may_start"].tolist(), given["may_follow"].tolist())
for weight, name in zip(made.weights, ("start", "follow")):
    weight.assign(given[name])
arguments = given["labels"], given["words"], given["opens"]
if keras.backend.backend() == "jax":
    import jax
    gradient = jax.grad(lambda x: ops.sum(made.loss(x, *arguments)))(given["scores"])
else:
    import torch
    arguments = [torch.from_numpy(each) for each in arguments]
    x = torch.from_numpy(given["scores"]).requires_grad_()
    ops.sum(made.loss(x, *arguments)).backward()
    gradient = x.grad
loss = made.loss(ops.convert_to_tensor(given["scores"]), *arguments)
tags, likely = made.decode(ops.convert_to_tensor(given["scores"]), *arguments[1:])
found = {"loss": loss, "tags": tags, "likely": likely, "gradient": gradient}
np.savez(sys.argv[2], **{name: ops.convert_to_numpy(value) for name, value in found.items()})
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("backend", [pytest.param(name, marks=pytest.mark.extra(name)) for name in ("jax", "torch")])
def test_other_backends_compute_the_same(backend, tmp_path):
    made, scores, labels = chain(), emissions(), LABELS
    np.savez(
        tmp_path / "given.npz", scores=scores, labels=labels, words=WORDS, opens=OPENS, may_start=MAY_START,
        may_follow=MAY_FOLLOW, start=made.start_scores.numpy(), follow=made.transition_scores.numpy(),
    )  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", ELSEWHERE, f"{tmp_path}/given.npz", f"{tmp_path}/found.npz"],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}, check=True, timeout=300,
    )  # fmt: skip
    given = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = made.loss(given, labels, WORDS, OPENS)
    tags, likely = made.decode(scores, WORDS, OPENS)
    expected = {"loss": loss, "tags": tags, "likely": likely, "gradient": tape.gradient(loss, given)}
    with np.load(tmp_path / "found.npz") as found:
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)
