"""The layers between a frozen network and a head: the learnt mix, and the BiLSTM."""

import numpy as np
import tensorflow as tf
from keras import ops

from xmodels.layers.bilstm import BiLstm
from xmodels.layers.scalar_mix import ScalarMix


def test_a_mix_is_the_mean_at_first_and_then_the_shares_of_a_softmax():
    layers = [np.random.default_rng(i).normal(size=(2, 3, 4)).astype(np.float32) for i in range(3)]
    mix = ScalarMix(3)
    np.testing.assert_allclose(mix(layers), np.mean(layers, axis=0), atol=1e-6)
    mix.shares.assign([0.0, np.log(2.0), np.log(5.0)])
    mix.gamma.assign([4.0])
    np.testing.assert_allclose(mix(layers), (layers[0] + 2 * layers[1] + 5 * layers[2]) / 2, atol=1e-5)


def test_padding_on_either_side_changes_nothing_and_both_directions_are_read():
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    layer = BiLstm(4, 2, 0.0)
    found = ops.convert_to_numpy(layer(x, mask))
    assert found.shape == (2, 5, 8)
    short = ops.convert_to_numpy(layer(x[1:, :3], mask[1:, :3]))
    np.testing.assert_allclose(found[1:, :3], short, atol=1e-6)
    left = np.concatenate([np.full((1, 2, 6), 9.0, np.float32), x[1:, :3]], axis=1)
    np.testing.assert_allclose(layer(left, np.array([[0, 0, 1, 1, 1]], bool))[:, 2:], short, atol=1e-6)
    with tf.GradientTape() as tape:
        given = tf.constant(x)
        tape.watch(given)
        middle = tf.reduce_sum(layer(given, mask)[0, 2])
    moved = np.abs(tape.gradient(middle, given).numpy()).sum(axis=-1)
    assert (moved[0] > 0).all() and not moved[1].any()
