"""The head of ULMFiT: three poolings, and batch norm whose averages are weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers.batch_norm import BatchNorm
from xmodels.layers.concat_pooling import ConcatPooling

DRAW = np.random.default_rng(0)


def test_padding_changes_nothing_and_the_three_poolings_are_joined():
    layer = ConcatPooling(5, 0.4, "glorot_uniform")
    states, mask = DRAW.normal(size=(2, 4, 6)).astype("float32"), np.array([[1, 1, 1, 0], [1, 1, 1, 1]], bool)
    found = np.array(layer(states, mask))
    longer = np.concatenate([states, np.full((2, 3, 6), 9.0, "float32")], axis=1)
    np.testing.assert_allclose(layer(longer, np.pad(mask, [(0, 0), (0, 3)])), found, atol=1e-6)
    real = states[0, :3]
    pooled = np.concatenate([real[-1], real.max(axis=0), real.mean(axis=0)])
    layer.hidden_norm.gamma.assign(np.ones(5) * np.sqrt(1 + 1e-5))
    hidden = np.maximum(pooled / np.sqrt(1 + 1e-5) @ np.array(layer.hidden.kernel), 0)
    np.testing.assert_allclose(layer(states, mask)[0], hidden, atol=1e-5)


def test_batch_norm_is_that_of_keras_and_its_averages_move_by_a_tenth_after_ten_batches():
    ours, theirs = BatchNorm(), keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)
    batches = DRAW.normal(2.0, 3.0, size=(14, 8, 3)).astype("float32")
    mean = variance = None
    for number, batch in enumerate(batches):
        np.testing.assert_allclose(ours(batch, training=True), theirs(batch, training=True), atol=1e-5)
        keep = min(0.9, number / (number + 1))
        of_batch = batch.mean(axis=0), batch.var(axis=0, ddof=1)
        mean = of_batch[0] if mean is None else keep * mean + (1 - keep) * of_batch[0]
        variance = of_batch[1] if variance is None else keep * variance + (1 - keep) * of_batch[1]
        if number == 9:
            np.testing.assert_allclose(ours.moving_mean, batches[:10].mean(axis=(0, 1)), rtol=1e-4)
    np.testing.assert_allclose(ours.moving_mean, mean, rtol=1e-4)
    np.testing.assert_allclose(ours.moving_variance, variance, rtol=1e-4)
    expected = (batches[0] - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(ours(batches[0]), expected, atol=1e-4)
    assert [w.path.split("/")[-1] for w in ours.non_trainable_weights] == [
        "moving_mean",
        "moving_variance",
        "num_batches",
    ]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_that_is_not_finite_leaves_the_averages_as_they_are(jit_compile):
    layer = BatchNorm()
    call = tf.function(lambda x: layer(x, training=True), jit_compile=jit_compile)
    call(tf.constant(DRAW.normal(size=(8, 3)), tf.float32))
    before = [weight.numpy() for weight in layer.non_trainable_weights]
    call(tf.constant([[np.nan] * 3] * 8))
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert np.array(layer.num_batches).tolist() == [1.0]
