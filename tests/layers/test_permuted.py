"""Rows in another order, each once in a round: values and gradients are those of a gather."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers.gradients import take_permuted


@pytest.mark.parametrize("rounds", [1, 3])
def test_gradients_are_those_of_a_gather(rounds):
    draw = np.random.default_rng(rounds)
    x = tf.constant(draw.normal(size=(2, 3, 7, 4)).astype("float32"))
    order = np.stack([[draw.permutation(7 * rounds) for _ in range(3)] for _ in range(2)]).astype("int32")
    places, undo = order % 7, np.argsort(order, axis=-1).astype("int32")
    direction = draw.normal(size=(2, 3, 7 * rounds, 4)).astype("float32")
    found = []
    for function in (
        lambda x: take_permuted(x, ops.convert_to_tensor(places), ops.convert_to_tensor(undo)),
        lambda x: ops.take_along_axis(x, places[..., None], axis=2),
    ):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(y * direction)
        found.append((y, tape.gradient(loss, x)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
