"""TensorCoder: its matrix against loops, what does not change it, its scales, and its causal form. The battery is `test_mixers.py`."""

import keras
import numpy as np
import pytest
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.tensorcoder import TensorCoder
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.bert import BertConfig


def mixer_of(num_heads=2, width=16, **numbers):
    keras.utils.set_random_seed(0)
    mixer = TensorCoder(num_heads, width, 0.0, gpt(0.5), **numbers)
    mixer(np.zeros((1, 2, width), "float32"))
    return mixer


def states(length, width=16):
    return np.random.default_rng(0).normal(size=(2, length, width)).astype("float32")


def test_it_is_what_loops_over_features_give():
    mixer, x = mixer_of(), states(9)
    query, key, value = (np.array(part(x)) for part in (mixer.query, mixer.key, mixer.value))
    expected = np.zeros((2, 9, 2, 8))
    for row in range(2):
        for head in range(2):
            for a in range(8):
                sums = [(query[row, :, head, a] * key[row, :, head, b]).sum() / 3 for b in range(8)]
                shares = np.exp(sums) / np.exp(sums).sum()
                for token in range(9):
                    expected[row, token, head, a] = (shares * value[row, token, head]).sum()
    np.testing.assert_allclose(mixer(x), mixer.merge(expected.astype("float32")), atol=1e-5)


def test_the_order_of_tokens_changes_the_order_of_results_only():
    mixer, x, order = mixer_of(), states(9), np.random.default_rng(1).permutation(9)
    np.testing.assert_allclose(mixer(x[:, order]), np.array(mixer(x))[:, order], atol=1e-5)


def test_padding_adds_nothing():
    mixer, x = mixer_of(), states(12)
    visible = Visible(np.arange(12) < np.array([[7], [7]]))
    np.testing.assert_allclose(mixer(x, visible=visible)[:, :7], mixer(x[:, :7]), atol=1e-5)


@pytest.mark.parametrize("chunk_size", [1, 4, 23])
def test_chunks_change_nothing_and_the_last_token_sees_the_whole_text(chunk_size):
    x, causal = states(23), Visible(causal=True)
    found = mixer_of(chunk_size=chunk_size)(x, visible=causal)
    np.testing.assert_allclose(found, mixer_of(chunk_size=7)(x, visible=causal), atol=1e-5)
    np.testing.assert_allclose(found[:, -1], mixer_of()(x)[:, -1], atol=1e-5)


def test_heads_of_one_feature_pass_values_on():
    mixer, x = mixer_of(num_heads=16), states(9)
    np.testing.assert_allclose(mixer(x), mixer.merge(mixer.value(x)), atol=1e-6)


def test_rows_of_the_matrix_stay_apart_from_certain_at_any_length_with_the_root_of_the_length_only():
    """Mean entropies of rows of 64 features, with unit normal queries and keys; ln 64 = 4.16."""
    found = {}
    for scale in ("sqrt_n", "sqrt_d", "n"):
        mixer = TensorCoder(1, 64, scale=scale)
        for length in (64, 4096):
            query, key = np.random.default_rng(0).normal(size=(2, length, 64)).astype("float32")
            shares = np.array(
                mixer.matrices(ops.convert_to_tensor(query.T @ key), ops.convert_to_tensor(float(length)))
            )
            np.testing.assert_allclose(shares.sum(axis=-1), 1.0, atol=1e-5)
            found[scale, length] = -(shares * np.log(shares + 1e-30)).sum(axis=-1).mean()
    assert found["sqrt_n", 64] == pytest.approx(3.69, abs=0.05) == found["sqrt_n", 4096]
    assert found["sqrt_d", 64] == pytest.approx(3.69, abs=0.05) and found["sqrt_d", 4096] < 0.8
    assert found["n", 4096] > 4.1


def test_unknown_scales_are_refused_with_the_known_ones():

    values = {**BertConfig(50, 16, 1, 2, 32, mixer="tensorcoder").to_json(), "mixer.scale": "n2"}
    with pytest.raises(CheckpointError, match="`mixer.scale` must be one of sqrt_n, sqrt_d, n."):
        BertConfig.from_json(values)
