"""Longformer: parity with Hugging Face's, global tokens by their marks, and its limits. The battery is `test_mixers.py`."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from tests.helpers.encoder_weights import assign_hugging_face
from xmodels.layers.attention.longformer import Longformer
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig
from xmodels.models.roberta import Roberta, RobertaConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "longformer" / "mlm_local_global"


@pytest.fixture(scope="module")
def golden():
    """Hugging Face's network with its inputs and outputs."""
    numbers = json.loads((GOLDEN / "config.json").read_text())["hyperparameters"]
    inputs, weights, outputs = (dict(np.load(GOLDEN / f"{part}.npz")) for part in ("inputs", "weights", "outputs"))
    config = RobertaConfig(
        numbers["vocabulary_size"], numbers["hidden_dim"], numbers["num_layers"], numbers["num_heads"], numbers["intermediate_dim"],
        max_sequence_length=numbers["position_table_rows"] - 2, dropout=0.0, attention_dropout=0.0, mixer="longformer",
        mixer_numbers={"windows": tuple(size // 2 for size in numbers["attention_window"]), "num_global": 5},
    )  # fmt: skip
    network = Roberta(config).initialize()
    assign_hugging_face(network, weights, "longformer")
    features = {
        "token_ids": inputs["token_ids"],
        "padding_mask": inputs["padding_mask"] > 0,
        "global_ids": inputs["global_mask"],
    }
    return network, features, outputs


def test_it_computes_what_hugging_face_computes(golden):
    network, features, outputs = golden
    real = features["padding_mask"]
    for index, states in enumerate(network.hidden_states(features)):
        np.testing.assert_allclose(np.array(states)[real], outputs[f"hidden_states/{index}"][real], atol=1e-4)


def test_global_tokens_attend_with_the_weights_of_hugging_face(golden):
    network, features, outputs = golden
    maps = network.attention_maps(features)
    for index, expected in enumerate(outputs[f"global_attention_probs/{layer}"] for layer in (0, 1)):
        for text in range(2):
            places = np.flatnonzero(features["global_ids"][text])
            found = np.array(maps[index])[text][:, places].swapaxes(1, 2)  # (H, L, g)
            np.testing.assert_allclose(found, expected[text, :, :30, : len(places)], atol=1e-4)


def mixer_of(length=30, **numbers):
    numbers = {"window": 4, "num_global": 3} | numbers
    config = BertConfig(
        50, 16, 2, 2, 32, max_sequence_length=length, attention_dropout=0.0, mixer="longformer", mixer_numbers=numbers
    )
    keras.utils.set_random_seed(0)
    mixer = Longformer.for_block(config, gpt(0.5))
    mixer(np.zeros((1, 2, 16), "float32"))
    return mixer


def states(length=30):
    return np.random.default_rng(0).normal(size=(2, length, 16)).astype("float32")


MARKS = np.zeros((2, 30), "int32")
MARKS[0, [0, 7, 8]] = MARKS[1, [20]] = 1


@pytest.mark.parametrize("length", [3, 30])
def test_marked_tokens_see_and_are_seen_and_so_are_gradients(length):
    mixer, x = mixer_of(), tf.constant(states(length))
    visible = Visible(np.arange(length) < np.array([[length], [max(2, length - 6)]]), global_ids=MARKS[:, :length])
    found = []
    for call in (mixer, mixer.explicit):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.where(visible.padding[..., None], call(x, visible=visible), 0.0) ** 2)
        found.append([loss, *tape.gradient(loss, [x, *(weight.value for weight in mixer.trainable_variables)])])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs), rtol=1e-4, atol=1e-3)


def test_a_marked_token_reaches_all_and_all_reach_it():
    mixer, x = mixer_of(), tf.constant(states())
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(
            mixer(x, visible=Visible(global_ids=MARKS)) * np.random.default_rng(2).normal(size=16), axis=-1
        )
    reached = np.abs(tape.batch_jacobian(y, x).numpy()).max(axis=-1) > 0
    near = np.abs(np.subtract.outer(np.arange(30), np.arange(30))) <= 4
    for text in range(2):
        marked = MARKS[text] > 0
        np.testing.assert_array_equal(reached[text], near | marked[None] | marked[:, None])


def test_where_all_tokens_are_global_it_is_full_attention():
    mixer, full, x = mixer_of(num_global=30), MultiHeadAttention(2, 16), states()
    full(x)
    weights = named_weights(mixer)
    for name, variable in named_weights(full).items():
        variable.assign(weights[name])
        if not name.startswith("merge"):
            weights[name.replace(".", "_global.")].assign(variable)
    np.testing.assert_allclose(mixer(x, visible=Visible(global_ids=np.ones((2, 30), "int32"))), full(x), atol=1e-5)


def test_of_more_marked_tokens_the_first_are_global():
    mixer, x, marks = mixer_of(num_global=2), states(), MARKS.copy()
    found = mixer(x, visible=Visible(global_ids=marks))
    marks[0, 8] = 0
    np.testing.assert_allclose(found, mixer(x, visible=Visible(global_ids=marks)), atol=1e-6)


def test_layers_may_have_windows_of_their_own():
    numbers = {"windows": (2, 7), "num_global": 1}
    network = Bert(BertConfig(50, 16, 2, 2, 32, mixer="longformer", mixer_numbers=numbers))
    assert [block.mixer.window for block in network.blocks] == [2, 7]
    with pytest.raises(
        ValueError, match="`mixer.windows` must be empty or have 3 numbers, one for each layer. Received: 2, 7."
    ):
        Bert(BertConfig(50, 16, 3, 2, 32, mixer="longformer", mixer_numbers=numbers))
    values = {**network.config.to_json()}
    assert values["mixer.windows"] == [2, 7] and BertConfig.from_json(values) == network.config
    with pytest.raises(CheckpointError, match="`mixer.windows` must be a list of whole numbers"):
        BertConfig.from_json({**values, "mixer.windows": "2"})


def test_it_has_no_causal_form():
    with pytest.raises(ValueError, match="Longformer does not support `causal` of `Visible`"):
        Gpt(GptConfig(50, 16, 1, 2, 32, mixer="longformer"))
