"""ConvS2S: layers by the formulas of the paper and of fairseq, steps as whole passes, and what nothing may look at."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.weight_norm import WeightNormDense
from xmodels.models.backbone import named_weights
from xmodels.models.conv_seq2seq import SIZES, ConvSeq2Seq, ConvSeq2SeqConfig

CONFIG = ConvSeq2SeqConfig(
    20, 6, filters=(8, 8, 10), kernel_sizes=(3, 2, 1), decoder_filters=(8, 4), decoder_kernel_sizes=(3, 2), output_dim=5,
    max_sequence_length=16, dropout=0.0,
)  # fmt: skip
SOURCE = np.array([[4, 7, 9, 2, 0, 0], [5, 3, 6, 8, 11, 2]])
REAL = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
TARGET = np.array([[2, 12, 13, 14, 5], [2, 15, 12, 2, 0]])
BATCH = {"token_ids": SOURCE, "padding_mask": REAL, "target_ids": TARGET}


@pytest.fixture(scope="module")
def network():
    made = ConvSeq2Seq(CONFIG).initialize()
    for i, variable in enumerate(made.weights):
        variable.assign(np.random.default_rng(i).normal(0, 0.5, variable.shape))
    return made


def dense(weights, name, x):
    v, g, b = (weights[f"{name}.{part}"] for part in ("direction", "scale", "bias"))
    return x @ (v * (g / np.linalg.norm(v, axis=0))) + b


def convolved(weights, name, x, before, after):
    """A convolution as loops over positions, and its gates."""
    width = before + after + 1
    padded = np.pad(x, ((before, after), (0, 0)))
    seen = np.stack([padded[i : i + width].reshape(-1) for i in range(len(x))])
    a, b = np.split(dense(weights, f"{name}.gated.convolution", seen), 2, axis=-1)
    return a / (1 + np.exp(-b))


def by_hand(network, source, target):
    """Sections 3.1 to 3.4 for one pair without padding: the outputs, and the mean of the attention weights."""
    weights = {name: np.array(value, "float64") for name, value in named_weights(network).items()}

    def embedded(name, ids):
        return weights[f"{name}.token.embeddings"][ids] + weights[f"{name}.position.embeddings"][: len(ids)]

    def shortcut(name, x):
        return dense(weights, f"{name}.residual", x) if f"{name}.residual.bias" in weights else x

    e = embedded("embedding", source)
    x = dense(weights, "encoder_input", e)
    for i, (_, size) in enumerate(CONFIG.encoder):
        name = f"encoder_layers.{i}"
        x = (shortcut(name, x) + convolved(weights, name, x, (size - 1) // 2, size // 2)) * 0.5**0.5
    z = dense(weights, "encoder_output", x)
    values = (z + e) * 0.5**0.5
    g = embedded("target_embedding", target)
    x, found = dense(weights, "decoder_input", g), []
    for i, (_, size) in enumerate(CONFIG.decoder):
        name = f"decoder_layers.{i}"
        h = convolved(weights, name, x, size - 1, 0)
        scores = (dense(weights, f"{name}.query", h) + g) * 0.5**0.5 @ z.T
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        context = shares @ values * len(source) ** 0.5
        h = (dense(weights, f"{name}.output_projection", context) + h) * 0.5**0.5
        x = (shortcut(name, x) + h) * 0.5**0.5
        found.append(shares)
    return dense(weights, "decoder_output", x), np.mean(found, axis=0)


def test_the_network_is_the_formulas_of_the_paper_also_beside_padding(network):
    outputs, shares = np.array(network(BATCH)["sequence_output"]), np.array(network.alignments(BATCH))
    for row in range(2):
        count = REAL[row].sum()
        expected, looked = by_hand(network, SOURCE[row, :count], TARGET[row])
        np.testing.assert_allclose(outputs[row], expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(shares[row, :, :count], looked, rtol=2e-5, atol=1e-6)
        assert not shares[row, :, count:].any()


def test_a_length_of_weights_is_learnt_apart_from_their_direction():
    layer = WeightNormDense(3, 0.5)
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    first = np.array(layer(x))
    layer.direction.assign(7 * np.array(layer.direction))
    np.testing.assert_allclose(layer(x), first, rtol=1e-5)
    layer.scale.assign(2 * np.array(layer.scale))
    np.testing.assert_allclose(layer(x), 2 * first, rtol=1e-5)
    assert np.array(layer.scale) == pytest.approx([2.0] * 3)  # 0.5 * sqrt(4), doubled


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_steps_give_what_a_whole_pass_gives(network, cut):
    expected, past, found = np.array(network(BATCH)["sequence_output"]), network.start(BATCH, TARGET.shape[1]), []
    for first in range(0, TARGET.shape[1], cut):
        states, past = network.decode(TARGET[:, first : first + cut], past, first)
        found.append(np.array(states))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)


def test_padding_and_the_future_of_the_target_change_nothing(network):
    expected = np.array(network(BATCH)["sequence_output"])
    wide = {
        "token_ids": np.pad(SOURCE, ((0, 0), (0, 3)), constant_values=9),
        "padding_mask": np.pad(REAL, ((0, 0), (0, 3))),
    }
    np.testing.assert_allclose(network(BATCH | wide)["sequence_output"], expected, atol=1e-5)
    other = TARGET.copy()
    other[:, 3:] = 17
    changed = np.array(network(BATCH | {"target_ids": other})["sequence_output"])
    np.testing.assert_allclose(changed[:, :3], expected[:, :3], atol=1e-6)
    assert np.abs(changed[:, 3:] - expected[:, 3:]).max() > 1e-3


def test_gradients_reach_every_weight_and_those_of_the_encoder_are_shared_out(network):
    def gradients(made):
        with tf.GradientTape() as tape:
            loss = ops.sum(made.logits(made(BATCH)["sequence_output"])[..., :3])
        return tape.gradient(loss, [weight.value for weight in made.trainable_variables])

    plain, compiled = gradients(network), tf.function(lambda: gradients(network), jit_compile=True)()
    for weight, one, other in zip(network.trainable_variables, plain, compiled, strict=True):
        one, other = np.array(tf.convert_to_tensor(one)), np.array(tf.convert_to_tensor(other))
        assert np.abs(one).max() > 0, weight.path
        np.testing.assert_allclose(one, other, atol=1e-4 * max(1.0, np.abs(one).max()), err_msg=weight.path)

    def of_last(factor):
        """The change of the loss with the last bias of the encoder, by a difference, and its gradient."""
        bias = network.encoder_output.bias
        before, step = np.array(bias), 1e-3
        moved = [float(ops.sum(network.logits(network(BATCH)["sequence_output"])[..., :3])) for sign in (1, -1)
                 if bias.assign(before + sign * step * np.eye(6)[0]) is not None]  # fmt: skip
        bias.assign(before)
        place = [weight.path for weight in network.trainable_variables].index(bias.path)
        return (moved[0] - moved[1]) / (2 * step) * factor, float(np.array(plain[place])[0])

    assert np.divide(*of_last(0.5 / len(network.decoder_layers))) == pytest.approx(1.0, rel=0.02)


def test_sizes_and_what_is_refused():
    base = ConvSeq2SeqConfig(100, **SIZES["base"])
    assert base.decoder == base.encoder and len(base.encoder) == 15 and base.encoder[-1] == (2048, 1)
    small = ConvSeq2SeqConfig(100, **SIZES["small"])
    assert len(small.decoder) == 3
    with pytest.raises(CheckpointError, match="`filters` and `kernel_sizes` must have a number for each layer"):
        ConvSeq2SeqConfig.from_json({"vocabulary_size": 9, "hidden_dim": 4, "filters": [4, 4], "kernel_sizes": [3]})
    with pytest.raises(ValueError, match="longer than the table"):
        made = ConvSeq2Seq(dataclasses.replace(CONFIG, max_sequence_length=4))
        made(BATCH)
