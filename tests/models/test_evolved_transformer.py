"""Evolved Transformer: its published sizes, its cells beside loops, padding and the future, and decoding with caches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.visible import Visible
from xmodels.layers.evolved_blocks import DecoderBranches, EncoderBranches, GatedUnit
from xmodels.models.backbone import named_weights
from xmodels.models.evolved_transformer import SIZES, EvolvedTransformer, EvolvedTransformerConfig

SMALL = {
    "vocabulary_size": 30, "hidden_dim": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "intermediate_dim": 24,
    "max_sequence_length": 32, "dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    network = EvolvedTransformer(EvolvedTransformerConfig(**SMALL)).initialize()
    for weight in network.weights:
        weight.assign_add(np.random.default_rng(weight.shape[0]).normal(0, 0.1, weight.shape))
    return network


def batch_of(target_length=14):
    rng = np.random.default_rng(1)
    return {
        "token_ids": rng.integers(3, 30, (2, 12)).astype("int32"), "padding_mask": np.arange(12) < np.array([[12], [7]]),
        "target_ids": rng.integers(3, 30, (2, target_length)).astype("int32"),
    }  # fmt: skip


def built(layer, width=8, length=10):
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(2).normal(size=(2, length, width)).astype("float32")
    layer(x)
    for weight in layer.weights:
        weight.assign_add(np.random.default_rng(weight.shape[0]).normal(0, 0.3, weight.shape))
    return layer, x


def test_a_gate_that_is_open_leaves_the_linear_layer():
    layer, x = built(GatedUnit(8))
    layer.gate.bias.assign(np.full(8, 100.0))
    np.testing.assert_allclose(layer(x), layer.linear(x), atol=1e-6)


def convolve(layer, x, before, after):
    """A separable convolution by loops over positions."""
    kernel, padded = np.array(layer.kernel), np.pad(x, ((before, after), (0, 0)))
    rows = [(padded[i : i + len(kernel)] * kernel).sum(axis=0) for i in range(len(x))]
    return np.stack(rows) @ np.array(layer.dense.kernel) + np.array(layer.dense.bias)


def norm(layer, x):
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return scaled * np.array(layer.gamma) + np.array(layer.beta)


def widen(x, width):
    return np.pad(x, ((0, 0), (0, width - x.shape[1])))


def test_branches_of_the_encoder_are_what_loops_give_whatever_the_padding():
    layer, x = built(EncoderBranches(EvolvedTransformerConfig(**SMALL | {"hidden_dim": 8})))
    real = np.arange(10) < np.array([[10], [6]])
    found = layer(x, real=real)
    for row, length in enumerate((10, 6)):
        own = x[row, :length]
        left = np.maximum(own @ np.array(layer.left.kernel) + np.array(layer.left.bias), 0)
        padded = np.pad(own, ((1, 1), (0, 0)))
        near = np.stack([padded[i : i + 3].reshape(-1) for i in range(length)])
        right = np.maximum(near @ np.array(layer.right.kernel) + np.array(layer.right.bias), 0)
        both = norm(layer.norm, left + widen(right, 32))
        np.testing.assert_allclose(found[row, :length], widen(convolve(layer.merge, both, 4, 4), 8), atol=1e-5)


def test_branches_of_the_decoder_are_what_loops_give():
    layer, x = built(DecoderBranches(EvolvedTransformerConfig(**SMALL | {"hidden_dim": 8})), length=14)
    for row in range(2):
        left = np.maximum(convolve(layer.left, x[row], 10, 0), 0)
        both = norm(layer.norm, left + widen(convolve(layer.right, x[row], 6, 0), 16))
        np.testing.assert_allclose(layer(x)[row], convolve(layer.merge, both, 6, 0), atol=1e-5)


def test_parts_whose_last_weights_are_zero_change_nothing(network):
    keras.utils.set_random_seed(3)
    silent = EvolvedTransformer(EvolvedTransformerConfig(**SMALL)).initialize()
    ends = ("merge.kernel", "merge.dense.kernel", "contract.kernel", "linear.kernel")
    for name, weight in named_weights(silent).items():
        if name.endswith(ends):
            weight.assign(tf.zeros_like(weight))
    x = tf.random.normal((1, 5, 16))
    np.testing.assert_array_equal(silent.encoder_blocks[0](x), x)
    np.testing.assert_array_equal(silent.decoder_blocks[0](x, source=x), x)
    assert np.abs(network.encoder_blocks[0](x) - x).max() > 0.1


def test_padding_changes_nothing_and_no_target_sees_a_later_one(network):
    batch = batch_of()
    whole = network(batch)["sequence_output"]
    changed = {**batch, "token_ids": np.where(batch["padding_mask"], batch["token_ids"], 29)}
    np.testing.assert_allclose(network(changed)["sequence_output"], whole, atol=1e-6)
    shorter = {**batch, "token_ids": batch["token_ids"][:, :7], "padding_mask": batch["padding_mask"][:, :7]}
    np.testing.assert_allclose(network(shorter)["sequence_output"][1], whole[1], atol=2e-5)
    block, x = network.decoder_blocks[0], tf.random.normal((1, 14, 16))
    with tf.GradientTape() as tape:
        tape.watch(x)

        y = tf.reduce_sum(block(x, source=x[:, :3] * 0.0, visible=Visible(causal=True)) * np.arange(16), axis=-1)
    reached = np.abs(tape.batch_jacobian(y, x)[0]).max(axis=-1) > 0
    assert np.array_equal(reached, np.tril(np.ones((14, 14), bool)))


@pytest.mark.parametrize("pieces", [(14,), (1,) * 14, (5, 1, 8)], ids=str)
def test_decoding_with_caches_is_the_whole_target_at_once(network, pieces):
    batch = batch_of()
    past, place, found = network.start(batch, 20), 0, []
    for length in pieces:
        states, past = network.decode(batch["target_ids"][:, place : place + length], past, place)
        found.append(states)
        place += length
    np.testing.assert_allclose(tf.concat(found, axis=1), network(batch)["sequence_output"], atol=2e-5)
    assert network.rewinds and not network.shares_past


def test_attention_maps_are_shares_of_the_source(network):
    maps = network.attention_maps(batch_of())
    assert [each.shape for each in maps] == [(2, 2, 12, 12)] * 2
    np.testing.assert_allclose(np.array(maps[1]).sum(axis=-1), 1.0, atol=1e-5)
    assert np.array(maps[0])[1, :, :, 7:].max() == 0


def count(config):
    """The weights of a network by hand: embeddings, layers of the encoder and of the decoder, and two norms."""
    d, f, e, n = config.hidden_dim, config.intermediate_dim, config.num_layers, config.num_decoder_layers
    attention, half = 4 * d * d, d // 2
    encoder = 2 * (d * d + d) + attention + (d * f + f + f * d + d) + 4 * 2 * d
    encoder += (4 * d * d + 4 * d) + (3 * d * half + half) + 8 * d + (9 * 4 * d + 4 * d * half + half)
    decoder = 4 * attention + (d * f + f + 2 * f + f * d + d) + 5 * 2 * d
    decoder += (11 * d + 2 * d * d + 2 * d) + (7 * d + d * half + half) + 4 * d + (7 * 2 * d + 2 * d * d + d)
    return config.vocabulary_size * d + e * encoder + n * decoder + 4 * d


@pytest.mark.parametrize(("size", "millions"), [("base", 64.1), ("big", 218), ("deep", 222)])
def test_sizes_have_the_published_numbers_of_parameters(size, millions, network):
    config = EvolvedTransformerConfig(33_300, **SIZES[size])
    assert count(config) / 1e6 == pytest.approx(millions, rel=0.01 if size == "base" else 0.03)
    assert count(network.config) == network.count_params()
    assert (config.first_heads, network.config.first_heads) == (16, 4)


def test_a_width_that_the_heads_do_not_divide_is_refused():
    values = {**SMALL, "hidden_dim": 18, "num_heads": 6}
    with pytest.raises(CheckpointError, match="a multiple of 12, the heads of the first attention .* Found: 18"):
        EvolvedTransformerConfig.from_json(values)
