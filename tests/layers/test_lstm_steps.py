"""The loop of an LSTM and its own gradient beside the rules of each operation."""

import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers.lstm_steps import run_lstm

ROWS, LENGTH, WIDTH = 3, 7, 5


def step_by_step(gates, kernel, h, c, mask, window, begins):
    """The same by operations whose gradients TensorFlow knows."""
    found = []
    for t in range(LENGTH):
        if window and t and t % window == 0:
            h, c = tf.stop_gradient(h), tf.stop_gradient(c)
        if begins is not None:
            h, c = (tf.where(begins[:, t : t + 1], 0.0, state) for state in (h, c))
        i, f, candidate, o = tf.split(gates[t] + h @ kernel, 4, axis=-1)
        new_c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(candidate)
        new_h = tf.sigmoid(o) * tf.tanh(new_c)
        if mask is not None:
            new_h, new_c = (tf.where(mask[:, t : t + 1], new, old) for new, old in ((new_h, h), (new_c, c)))
        h, c = new_h, new_c
        found.append((h, c))
    return [tf.stack(states) for states in zip(*found, strict=True)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "xla"])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize(("is_masked", "is_parted"), [(False, False), (True, False), (False, True), (True, True)])
def test_values_and_gradients_are_those_of_each_operation(is_masked, is_parted, window, jit_compile):
    draw = np.random.default_rng(0)
    shapes = [(LENGTH, ROWS, 4 * WIDTH), (WIDTH, 4 * WIDTH), (ROWS, WIDTH), (ROWS, WIDTH)]
    given = [tf.constant(draw.normal(size=shape).astype("float32")) for shape in shapes]
    directions = draw.normal(size=(2, LENGTH, ROWS, WIDTH)).astype("float32")
    mask = tf.constant(draw.random((ROWS, LENGTH)) > 0.3) if is_masked else None
    begins = tf.constant(np.arange(LENGTH) == np.array([[2], [0], [5]])) if is_parted else None

    def found_by(function):
        def run(*given):
            with tf.GradientTape() as tape:
                tape.watch(given)
                found = function(*given, mask, window, begins)
                loss = sum(tf.reduce_sum(x * d) for x, d in zip(found, directions, strict=True))
            return *found, *tape.gradient(loss, given)

        return (run if jit_compile is None else tf.function(run, jit_compile=jit_compile))(*given)

    for mine, theirs in zip(found_by(run_lstm), found_by(step_by_step), strict=True):
        assert np.abs(theirs).max() > 1e-3
        np.testing.assert_allclose(mine, theirs, atol=2e-6)


def test_lengths_need_not_be_known():
    @tf.function(input_signature=[tf.TensorSpec([None, None, 4 * WIDTH]), tf.TensorSpec([None, None], tf.bool)])
    def run(gates, mask):
        zeros = tf.zeros((tf.shape(gates)[1], WIDTH))
        with tf.GradientTape() as tape:
            tape.watch(gates)
            states, _ = run_lstm(gates, tf.eye(WIDTH, 4 * WIDTH), zeros, zeros, mask)
            loss = tf.reduce_sum(states[-1])
        return states, tape.gradient(loss, gates)

    for rows, length in ((2, 4), (3, 1)):
        gates = tf.ones((length, rows, 4 * WIDTH))
        states, gradient = run(gates, tf.ones((rows, length), tf.bool))
        assert states.shape == (length, rows, WIDTH) and np.abs(gradient).min(axis=2).max() >= 0
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0
