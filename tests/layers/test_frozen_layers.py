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


def by_loop(lstm, x, mask):
    """The states of an LSTM (Hochreiter and Schmidhuber, 1997, with forget gates), token after token; padding keeps the state."""
    kernel, recurrent, bias = (np.array(weight, np.float64) for weight in lstm.get_weights())
    size, found = len(recurrent), np.zeros((*x.shape[:2], len(recurrent)))
    for row in range(len(x)):
        state, memory = np.zeros(size), np.zeros(size)
        for place in range(x.shape[1]):
            if mask[row, place]:
                gates = np.split(x[row, place] @ kernel + state @ recurrent + bias, 4)
                opened, kept, new, shown = (np.tanh(g) if i == 2 else 1 / (1 + np.exp(-g)) for i, g in enumerate(gates))
                memory = kept * memory + opened * new
                state = shown * np.tanh(memory)
            found[row, place] = state
    return found


def test_a_bilstm_is_two_plain_loops_side_by_side_layer_by_layer():
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], bool)
    layer = BiLstm(4, 2, 0.0)
    found, expected = ops.convert_to_numpy(layer(x, mask)), x.astype(np.float64)
    for ahead, behind in zip(layer.forward, layer.backward, strict=True):
        backwards = by_loop(behind, expected[:, ::-1], mask[:, ::-1])[:, ::-1]
        expected = np.concatenate([by_loop(ahead, expected, mask), backwards], axis=-1)
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-5)


def test_a_palindrome_reads_the_same_in_both_directions():
    half = np.random.default_rng(2).normal(size=(2, 3, 5)).astype(np.float32)
    x = np.concatenate([half, half[:, ::-1]], axis=1)  # (2, 6, 5)
    layer, mask = BiLstm(4, 1, 0.0), np.ones((2, 6), bool)
    layer(x, mask)
    layer.backward[0].set_weights(layer.forward[0].get_weights())
    forwards, backwards = np.split(ops.convert_to_numpy(layer(x, mask)), 2, axis=-1)
    np.testing.assert_allclose(forwards, backwards[:, ::-1], atol=1e-6)
    assert np.abs(forwards - forwards[:, ::-1]).max() > 0.01  # a direction alone sees which half came first
