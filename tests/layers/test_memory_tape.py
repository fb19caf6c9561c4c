"""The LSTMN: its steps by the equations of the paper, and what a step may look at."""

import numpy as np
import tensorflow as tf
from keras import ops

from xmodels.layers.memory_tape import MemoryTapeLstm

B, L, E, D = 2, 5, 3, 4
X = np.random.default_rng(0).normal(size=(B, L, E)).astype("float32")


def made() -> MemoryTapeLstm:
    layer = MemoryTapeLstm(D)
    layer(X)
    for i, variable in enumerate(layer.weights):
        variable.assign(np.random.default_rng(i).normal(0, 0.6, variable.shape))
    return layer


def by_loop(layer, x):
    """Equations 5 to 11 for one text: the states, and the attention weights."""
    cell = layer.steps.cell
    kernel, bias, look = (np.array(w, "float64") for w in (layer.gates.kernel, layer.gates.bias, layer.look.kernel))
    key, summary, recurrent = (np.array(each.kernel, "float64") for each in (cell.key, cell.summary, cell.recurrent))
    hs, cs, rows, before = [], [], [], np.zeros(D)
    for t, word in enumerate(x):
        shares = np.zeros(0)
        h, c = np.zeros(D), np.zeros(D)
        if t:
            scores = [np.array(cell.scale) @ np.tanh(past @ key + word @ look + before @ summary) for past in hs]
            shares = np.exp(scores) / np.exp(scores).sum()
            h, c = shares @ np.array(hs), shares @ np.array(cs)
        before = h
        i, f, candidate, o = np.split(word @ kernel + bias + h @ recurrent, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(candidate) / (1 + np.exp(-i))
        hs.append(np.tanh(c) / (1 + np.exp(-o)))
        cs.append(c)
        rows.append(np.pad(shares, (0, len(x) - t)))
    return np.array(hs), np.array(rows)


def test_states_and_shares_are_those_of_the_equations():
    layer = made()
    states, shares = (np.array(each) for each in layer.run(X))
    for row in range(B):
        expected, looked = by_loop(layer, X[row])
        np.testing.assert_allclose(states[row], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(shares[row], looked, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(shares.sum(-1)[:, 1:], 1.0, rtol=1e-5)


def test_of_two_words_the_second_step_is_that_of_an_lstm():
    """Of one state the mean is that state, so nothing differs from an LSTM yet; the third step does."""
    layer = made()
    lstm = tf.keras.layers.LSTM(D, return_sequences=True)
    lstm.build((None, None, E))
    lstm.set_weights([np.array(w) for w in (layer.gates.kernel, layer.steps.cell.recurrent.kernel, layer.gates.bias)])
    ours, theirs = np.array(layer(X)), np.array(lstm(X))
    np.testing.assert_allclose(ours[:, :2], theirs[:, :2], atol=1e-5)
    assert np.abs(ours[:, 2:] - theirs[:, 2:]).max() > 1e-3


def test_what_comes_later_changes_nothing_and_gradients_reach_all_weights_also_compiled():
    layer = made()
    changed = np.concatenate([X[:, :3], -X[:, 3:]], axis=1)
    np.testing.assert_allclose(np.array(layer(changed))[:, :3], np.array(layer(X))[:, :3], atol=1e-6)

    def gradients():
        with tf.GradientTape() as tape:
            loss = ops.sum(layer(X)[..., :2] ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.trainable_variables])

    plain, compiled = gradients(), tf.function(gradients, jit_compile=True)()
    for weight, one, other in zip(layer.trainable_variables, plain, compiled, strict=True):
        assert np.abs(np.array(one)).max() > 0, weight.path
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5, err_msg=weight.path)
