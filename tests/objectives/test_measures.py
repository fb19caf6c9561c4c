"""Losses and metrics against their definitions."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from tests.helpers.compiling import Compiler
from xmodels.layers import compilation
from xmodels.objectives.measures import (
    area_under_roc,
    smoothed_cross_entropy,
    weighted_accuracy,
    weighted_cross_entropy,
)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4], ids=lambda scale: f"{scale:g}")
def test_cross_entropy_and_its_gradient_are_those_of_keras(scale, is_compiled, monkeypatch):
    monkeypatch.setattr(compilation, "MANY", 42)
    compile_it, rng = Compiler(), np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=(2, 3, 7)).astype("float32") * scale)
    labels, weights = rng.integers(0, 7, (2, 3)).astype("int32"), rng.random((2, 3)).astype("float32")
    with tf.GradientTape(persistent=True) as tape, compilation.compiled(compile_it if is_compiled else None):
        tape.watch(logits)
        ours, weight = weighted_cross_entropy(labels, logits, weights)
        theirs = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) * weights)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(weight, weights.sum(), rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(ours, logits), tape.gradient(theirs, logits), atol=1e-6)
    assert len(compile_it.asked) == is_compiled


@pytest.mark.parametrize("over", ["others", "all"])
@pytest.mark.parametrize("ignored", [None, 0])
def test_a_smoothed_cross_entropy_and_its_gradient_follow_from_the_definition(ignored, over):
    rng, classes, smoothing = np.random.default_rng(0), 7, 0.1
    logits, weights = tf.constant(rng.normal(size=(2, 3, classes)).astype("float32") * 5), rng.random((2, 3), "float32")
    labels = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    low = smoothing / (classes - (over == "others") - (ignored is not None))
    high = 1 - smoothing + (low if over == "all" else 0)
    target = np.where(tf.one_hot(labels, classes) > 0, high, low).astype("float32")
    if ignored is not None:
        target[..., ignored] = 0
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        ours, _ = smoothed_cross_entropy(labels, logits, weights, smoothing, ignored, over)
        logs = tf.math.log(np.where(target > 0, target, 1)) - tf.nn.log_softmax(logits)
        defined = tf.reduce_sum(tf.reduce_sum(target * logs, axis=-1) * weights)
    np.testing.assert_allclose(ours, defined, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(ours, logits), tape.gradient(defined, logits), atol=1e-6)


def test_the_area_under_the_roc_curve_is_that_of_scikit_learn():
    """Within each batch, with weights, and with equal scores, which count half."""
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 2, (4, 50)), rng.integers(0, 2, (4, 50)).astype("float32")
    for scores in (rng.normal(size=(4, 50)) + labels, rng.integers(0, 4, (4, 50)), np.zeros((4, 50))):
        right, pairs = tf.function(area_under_roc, jit_compile=True)(labels, scores.astype("float32"), weights)
        expected = roc_auc_score(labels.ravel(), scores.ravel(), sample_weight=weights.ravel())
        assert float(right) / float(pairs) == pytest.approx(expected, abs=1e-6)
    assert area_under_roc(np.ones(3), np.ones(3), np.ones(3))[1] == 0  # no pair


def test_of_equal_logits_the_first_is_the_answer():
    logits = tf.constant([[1.0, 3.0, 3.0], [-0.0, 0.0, -1.0], [-5.0, -7.0, -4.0], [0.0, 0.0, 0.0]])
    for labels, right in (([1, 0, 2, 0], 4), ([2, 1, 2, 2], 1), ([0, 2, 0, 1], 0)):
        assert float(weighted_accuracy(np.array(labels), logits, np.ones(4))[0]) == right
