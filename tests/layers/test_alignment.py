"""The scores of attention before the Transformer: each is its formula, for one query and for several at once."""

import numpy as np
import pytest

from xmodels.layers.attention.additive import bias_of
from xmodels.layers.attention.alignment import SCORES, alignment_of

Q, S, T, PLACES = 4, 6, 3, 5
REAL = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)


def normed(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def cosine(layer, s, h):
    return float(np.array(layer.strength)) * normed(s) @ normed(h).T


# s (T, Q) and h (S, K), those of one text; K is Q.
FORMULAS = {
    "additive": lambda layer, s, h: (
        np.tanh((s @ np.array(layer.query.kernel))[:, None] + h @ np.array(layer.key.kernel)) @ np.array(layer.scale)
    ),
    "content": cosine,
    "location": lambda layer, s, h: np.pad(
        s @ np.array(layer.matrix).T, ((0, 0), (0, S - PLACES)), constant_values=-np.inf
    ),
    "general": lambda layer, s, h: s @ np.array(layer.matrix).T @ h.T,
    "dot": lambda layer, s, h: s @ h.T,
    "scaled_dot": lambda layer, s, h: s @ h.T / np.sqrt(Q),
}


def draw(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def made(score, key_dim=Q):
    layer = alignment_of(score, Q, key_dim, 7, PLACES)
    layer.build()
    for i, weight in enumerate(layer.weights):
        weight.assign(draw(weight.shape, i) + 0.5)
    return layer


def test_there_is_a_formula_for_each_score():
    assert set(FORMULAS) == set(SCORES)


@pytest.mark.parametrize("score", SCORES)
def test_a_score_is_its_formula(score):
    layer, s, h = made(score), draw((2, T, Q), 10), draw((2, S, Q), 11)
    keys, bias = layer.project(h), bias_of(REAL)
    together = np.array(layer(s, keys, bias))
    for row in range(2):
        scores = np.where(REAL[row], np.exp(FORMULAS[score](layer, s[row], h[row])), 0.0)
        expected = scores / scores.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(together[row], expected, rtol=2e-5, atol=1e-7)
    for step in range(T):
        np.testing.assert_allclose(layer(s[:, step], keys, bias), together[:, step], rtol=1e-5, atol=1e-7)
    assert not together[0][:, ~REAL[0]].any()


@pytest.mark.parametrize("score", ["content", "dot", "scaled_dot"])
def test_of_two_directions_their_sum_is_compared(score):
    layer, s, h = made(score, 2 * Q), draw((2, Q), 12), draw((2, S, 2 * Q), 13)
    one = made(score)
    expected = one(s, one.project(h[..., :Q] + h[..., Q:]), bias_of(REAL))
    np.testing.assert_array_equal(layer(s, layer.project(h), bias_of(REAL)), expected)


def test_places_that_location_does_not_know_are_not_seen_and_texts_may_be_shorter():
    layer, s = made("location"), draw((2, Q), 14)
    long = np.array(layer(s, layer.project(draw((2, S, Q), 15)), bias_of(REAL)))
    assert not long[:, PLACES:].any() and (long[1, :PLACES] > 0).all()
    short = np.array(layer(s, layer.project(draw((2, PLACES, Q), 16)), bias_of(REAL[:, :PLACES])))
    np.testing.assert_allclose(short, long[:, :PLACES], rtol=1e-6)


def test_direction_alone_matters_to_content():
    layer, s, h = made("content"), draw((2, Q), 17), draw((2, S, Q), 18)
    expected = layer(s, layer.project(h), bias_of(REAL))
    np.testing.assert_allclose(layer(7 * s, layer.project(0.1 * h), bias_of(REAL)), expected, rtol=1e-5)
    assert np.isfinite(np.array(layer(0 * s, layer.project(0 * h), bias_of(REAL)))).all()


def test_what_does_not_suit_is_named():
    with pytest.raises(ValueError, match="`score` must be one of additive, content, .*Received: 'cosine'"):
        alignment_of("cosine", Q, Q, 7, PLACES)
    with pytest.raises(ValueError, match="as wide as those of the decoder, or twice as wide. Received: 5 and 4"):
        alignment_of("dot", Q, 5, 7, PLACES)
