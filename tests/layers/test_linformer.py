"""Linformer: parity with the reference, ways of sharing, its limits, and its largest length. The battery is `test_mixers.py`."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.linformer import Linformer
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.roberta import Roberta, RobertaConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "linformer"
NAMES = {"to_q.weight": "query", "to_k.weight": "key", "to_v.weight": "value"}


def config_of(length=12, num_layers=1, **numbers):
    numbers = {"rank": 4} | numbers
    return BertConfig(
        50, 16, num_layers, 2, 32, max_sequence_length=length, dropout=0.0, attention_dropout=0.0, mixer="linformer",
        mixer_numbers=numbers,
    )  # fmt: skip


def mixer_of(**numbers):
    keras.utils.set_random_seed(0)
    mixer = Linformer.for_block(config_of(**numbers), gpt(0.5))
    mixer(np.zeros((1, 2, 16), "float32"))
    return mixer


def states(length, width=16):
    return np.random.default_rng(0).normal(size=(2, length, width)).astype("float32")


def reference(case):
    """A mixer with the weights of a golden, its inputs and outputs, and {their name of a weight: ours}."""
    numbers = json.loads((GOLDEN / case / "config.json").read_text())["hyperparameters"]
    inputs, weights, outputs = (np.load(GOLDEN / case / f"{part}.npz") for part in ("inputs", "weights", "outputs"))
    heads, width = numbers["num_heads"], numbers["hidden_dim"]
    config = BertConfig(
        50, width, 1, heads, 4, max_sequence_length=numbers["max_sequence_length"], attention_dropout=0.0, mixer="linformer",
        mixer_numbers={
            "rank": numbers["projected_length"], "sharing": "keys_and_values" if numbers["share_kv"] else "heads",
            "one_head": numbers["one_kv_head"], "values_are_keys": numbers["share_kv"],
        },
    )  # fmt: skip
    mixer = Linformer.for_block(config, gpt(0.02))
    mixer(inputs["x"])
    places = {theirs: getattr(mixer, ours).kernel for theirs, ours in NAMES.items() if theirs in weights}
    places |= {"to_out.weight": mixer.merge.kernel, "to_out.bias": mixer.merge.bias, "proj_k": mixer.mix_positions.keys}
    if "proj_v" in weights:
        places["proj_v"] = mixer.mix_positions.values
    for name, variable in places.items():
        value = weights[name].T if name.endswith(".weight") else weights[name]
        variable.assign(value.reshape(variable.shape))
    return mixer, inputs, outputs, places


@pytest.mark.parametrize("case", ["separate_kv", "shared_kv_one_head"])
def test_it_computes_what_the_reference_computes(case):
    mixer, inputs, outputs, places = reference(case)
    x, short, context = (inputs[name] for name in ("x", "x_short", "context"))
    np.testing.assert_allclose(mixer(short), outputs["output_short"], atol=1e-4)
    np.testing.assert_allclose(mixer(x, context=context), outputs["output_context"], atol=1e-4)
    with tf.GradientTape() as tape:
        y = mixer(x)
        loss = tf.reduce_mean(y**2)
    np.testing.assert_allclose(y, outputs["output"], atol=1e-4)
    expected = dict(zip(outputs["grad_norm_names"], outputs["grad_norm_values"], strict=True))
    gradients = tape.gradient(loss, [variable.value for variable in places.values()])
    found = {name: float(tf.norm(gradient)) for name, gradient in zip(places, gradients, strict=True)}
    assert found == pytest.approx({str(name): float(value) for name, value in expected.items()}, rel=1e-3)


@pytest.mark.parametrize("sharing", ["none", "heads"])
def test_a_mix_that_changes_nothing_is_full_attention(sharing):
    length = 12
    mixer, full = mixer_of(rank=length, sharing=sharing), MultiHeadAttention(2, 16)
    x = states(length)
    full(x)
    for name, variable in named_weights(full).items():
        variable.assign(named_weights(mixer)[name])
    for weights in (mixer.mix_positions.keys, mixer.mix_positions.values):
        weights.assign(np.broadcast_to(np.eye(length, dtype="float32"), weights.shape))
    np.testing.assert_allclose(mixer(x), full(x), atol=1e-5)


def test_padding_adds_nothing_however_much_there_is():
    mixer, x = mixer_of(), states(12)
    visible = Visible(np.arange(12) < np.array([[7], [7]]))
    expected = mixer(x[:, :7])
    np.testing.assert_allclose(mixer(x, visible=visible)[:, :7], expected, atol=1e-5)
    changed = np.where(visible.padding[..., None], x, 100.0).astype("float32")
    np.testing.assert_allclose(mixer(changed, visible=visible)[:, :7], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("numbers", "shapes"),
    [
        ({"sharing": "none"}, [(2, 12, 4), (2, 12, 4)]),
        ({"sharing": "heads"}, [(12, 4), (12, 4)]),
        ({"sharing": "keys_and_values"}, [(12, 4)]),
        ({"sharing": "layers"}, [(12, 4)]),
        ({"sharing": "none", "one_head": True}, [(1, 12, 4), (1, 12, 4)]),
    ],
)
def test_what_is_shared_has_one_weight(numbers, shapes):
    mixer = mixer_of(**numbers)
    assert [tuple(weight.shape) for weight in mixer.mix_positions.weights] == shapes
    x, visible = states(9), Visible(np.arange(9) < np.array([[9], [6]]))
    weights = mixer.probabilities(ops.convert_to_tensor(x), visible)
    values = ops.repeat(mixer.value(x), 2 // mixer.value(x).shape[2], axis=2)
    expected = mixer.merge(ops.einsum("bhls,bshk->blhk", weights, values))
    np.testing.assert_allclose(mixer(x, visible=visible), expected, atol=1e-5)


def test_values_can_be_the_keys():
    mixer = mixer_of(values_are_keys=True, one_head=True)
    assert mixer.value is mixer.key and tuple(mixer.key.kernel.shape) == (16, 1, 8)
    assert not [name for name in named_weights(mixer) if name.startswith("value")]


@pytest.mark.parametrize(("network", "config"), [(Bert, BertConfig), (Roberta, RobertaConfig)])
def test_layers_share_one_mix_only_where_they_are_told_to(network, config):
    found = {}
    for sharing in ("heads", "layers"):
        numbers = {"mixer": "linformer", "mixer_numbers": {"rank": 4, "sharing": sharing}}
        backbone = network(config(50, 16, 3, 2, 32, max_sequence_length=12, **numbers)).initialize()
        found[sharing] = [name for name in named_weights(backbone) if "mix_positions" in name]
        mixes = {id(block.mixer.mix_positions) for block in backbone.blocks}
        assert len(mixes) == (1 if sharing == "layers" else 3)
    assert len(found["heads"]) == 6 and found["layers"] == ["blocks.0.mixer.mix_positions.keys"]


def test_a_text_that_is_too_long_is_refused_by_its_length():
    with pytest.raises(ValueError, match=r"at most 12 tokens \(`max_sequence_length`\). Received: 13 tokens."):
        mixer_of()(states(13))


def test_it_has_no_causal_form():
    with pytest.raises(ValueError, match="Linformer does not support `causal` of `Visible`; it supports padding."):
        Gpt(GptConfig(50, 16, 1, 2, 32, mixer="linformer"))


def test_an_unknown_way_of_sharing_lists_the_known_ones():
    values = {**config_of().to_json(), "mixer.sharing": "head"}
    with pytest.raises(CheckpointError, match="`mixer.sharing` must be one of none, heads, keys_and_values, layers."):
        BertConfig.from_json(values)
