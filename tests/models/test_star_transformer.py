"""Star-Transformer: beside loops over tokens, who sees whom, short and padded texts. The battery of mixers is `test_mixers.py`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.star import Ring, Star
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.layers.rematerialization import rematerialized
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.models.star_transformer import SIZES, StarTransformer, StarTransformerConfig

SHAPE = {"num_layers": 2, "num_heads": 2, "head_dim": 3, "max_sequence_length": 32}
PLAIN = {"dropout": 0.0, "attention_dropout": 0.0}


def network_of(**numbers):
    keras.utils.set_random_seed(0)
    network = StarTransformer(StarTransformerConfig(50, 8, **SHAPE | PLAIN | numbers)).initialize()
    for weight in network.weights:
        weight.assign_add(np.random.default_rng(weight.shape[0]).normal(0, 0.4, weight.shape))
    return network


def batch_of(lengths, width=None):
    width = width or max(lengths)
    ids = np.random.default_rng(1).integers(0, 50, (len(lengths), width)).astype("int32")
    return {"token_ids": ids, "padding_mask": np.arange(width) < np.array(lengths)[:, None]}


def softmax(x):
    shares = np.exp(x - x.max())
    return shares / shares.sum()


def layer_norm(x, weights, name):
    gamma, beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


def attend(query, context, weights):
    """Equation 1: one query (D,), S tokens to take from (S, D)."""

    def project(x, part):
        return np.einsum("...d,dhk->...hk", x, weights[f"{part}.kernel"]) + weights[f"{part}.bias"]

    q, keys, values = project(query, "query"), project(context, "key"), project(context, "value")
    heads = [softmax(keys[:, h] @ q[h] / np.sqrt(q.shape[-1])) @ values[:, h] for h in range(q.shape[0])]
    return np.einsum("hk,hkd->d", np.stack(heads), weights["merge.kernel"]) + weights["merge.bias"]


def below(weights, prefix):
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def by_loops(network, ids):
    """Algorithm 1 for one text, token by token."""
    config, weights = network.config, {name: np.array(value) for name, value in named_weights(network).items()}
    embedded = weights["embedding.token.embeddings"][ids] + weights["embedding.position.embeddings"][: len(ids)]
    states, relay, count = embedded, embedded.mean(axis=0), len(ids)
    for index in range(config.num_layers):
        own = below(weights, f"blocks.{index}.")
        shown = layer_norm(states, own, "mixer_norm") if config.form == "code" else states
        following = []
        for i in range(count):
            places = {i - 1, i, i + 1} if not config.is_ring else {(i - 1) % count, i, (i + 1) % count}
            near = [shown[j] for j in sorted(places) if 0 <= j < count]
            following.append(attend(shown[i], np.stack([*near, embedded[i], relay]), below(own, "mixer.")))
        states = np.stack(following)
        if config.form == "paper":
            states = layer_norm(np.maximum(states, 0), own, "mixer_norm")
        else:
            states = np.where(states > 0, states, 0.01 * states)
        relay = attend(relay, np.stack([relay, *states]), below(own, "relay_mixer."))
        if config.form == "paper":
            relay = layer_norm(np.maximum(relay, 0), own, "relay_norm")
        else:
            relay = np.where(relay > 0, relay, 0.01 * relay)
    return states, relay


@pytest.mark.parametrize("form", ["paper", "code"])
@pytest.mark.parametrize("is_ring", [True, False], ids=["ring", "chain"])
def test_it_is_what_loops_over_tokens_give_whatever_the_padding(form, is_ring):
    network, lengths = network_of(form=form, is_ring=is_ring), [9, 1, 2, 3]
    batch = batch_of(lengths, 12)
    outputs = network(batch)
    for row, length in enumerate(lengths):
        states, relay = by_loops(network, batch["token_ids"][row, :length])
        np.testing.assert_allclose(outputs["sequence_output"][row, :length], states, atol=2e-5)
        np.testing.assert_allclose(outputs["relay_output"][row], relay, atol=2e-5)
        np.testing.assert_allclose(outputs["pooled_output"][row], (states.max(axis=0) + relay) / 2, atol=2e-5)
        assert not np.array(outputs["sequence_output"])[row, length:].any()
    shown = network.hidden_states(batch)
    assert len(shown) == 3
    np.testing.assert_allclose(shown[-1], outputs["sequence_output"], atol=1e-6)


@pytest.mark.parametrize("is_ring", [True, False], ids=["ring", "chain"])
def test_tokens_see_as_far_as_there_are_layers_and_the_rest_through_the_relay_alone(is_ring):
    block = network_of(is_ring=is_ring).blocks[0]
    states = tf.constant(np.random.default_rng(2).normal(size=(1, 12, 8)).astype("float32"))
    embedded, fixed, real = tf.zeros_like(states), tf.ones((1, 1, 8)), tf.ones((1, 12), tf.bool)

    def reached(follows):
        with tf.GradientTape() as tape:
            tape.watch(states)
            x, relay = states, fixed
            for _ in range(3):
                x, following = block(x, relay=relay, embedded=embedded, padding_mask=real)
                relay = following if follows else fixed
            total = tf.reduce_sum(x[0, 4] * np.arange(8))
        return np.flatnonzero(np.abs(tape.gradient(total, states)[0]).max(axis=-1) > 0).tolist()

    assert reached(False) == list(range(1, 8)) and reached(True) == list(range(12))
    x = block(states, relay=fixed, embedded=embedded, padding_mask=real)[0]
    changed = block(states + tf.eye(12)[None, :, :1] * 3.0, relay=fixed, embedded=embedded, padding_mask=real)[0]
    moved = np.flatnonzero(np.abs(np.array(x - changed)[0]).max(axis=-1) > 1e-6).tolist()
    assert moved == ([0, 1, 11] if is_ring else [0, 1])


def test_shares_of_a_layer_sum_to_one_at_the_ends_of_a_text_too():
    """With values that are all equal, attention returns them."""
    ring = Ring(tf.constant(batch_of([7, 2, 1], 9)["padding_mask"]), True)
    assert np.array([np.array(each) for each in ring.there]).sum(axis=0).tolist() == [
        [3] * 7 + [1, 0], [2, 2, 1] + [0] * 6, [1, 1] + [0] * 7,
    ]  # fmt: skip
    block = network_of(is_ring=False).blocks[0]
    mixer, x = block.mixer, tf.random.normal((2, 9, 8))
    mixer.value.kernel.assign(tf.zeros_like(mixer.value.kernel))
    mixer.value.bias.assign(np.arange(6.0).reshape(2, 3))
    found = mixer(x, embedded=x, relay=x[:, :1], ring=Ring(tf.ones((2, 9), tf.bool), False))
    expected = np.einsum("hk,hkd->d", np.arange(6.0).reshape(2, 3), mixer.merge.kernel) + mixer.merge.bias
    np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 9, 8)), atol=1e-5)


def test_blocks_that_are_computed_again_have_the_same_gradients():
    network, batch, found = network_of(dropout=0.0), batch_of([9, 5]), []
    for again in (False, True):
        with tf.GradientTape() as tape, rematerialized(again):
            total = tf.reduce_sum(network(batch, training=True)["pooled_output"] ** 2)
        found.append(
            [np.array(tf.convert_to_tensor(g)) for g in tape.gradient(total, [w.value for w in network.weights])]
        )
    assert all(np.abs(value).max() > 1e-6 for value in found[0][1:3])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * max(1.0, np.abs(ours).max()))


def test_the_mixer_is_one_relay_of_each_layer_with_the_weights_of_attention():
    config = BertConfig(50, 16, 1, 2, 32, mixer="star")
    star, full = Bert(config).initialize(), Bert(BertConfig(50, 16, 1, 2, 32)).initialize()
    assert named_weights(star).keys() == named_weights(full).keys()
    keras.utils.set_random_seed(3)
    mixer, x = Star(2, 16, 0.0, gpt(0.5)), np.random.default_rng(4).normal(size=(1, 3, 16)).astype("float32")
    relay = mixer.relay(x, mixer.key(x), mixer.value(x), np.ones((1, 3), bool))
    text = np.concatenate([x, relay], axis=1)  # of three tokens in a ring each sees all
    expected = mixer.merge(tf.einsum("bhls,bshk->blhk", tf.nn.softmax(tf.einsum(
        "blhk,bshk->bhls", mixer.query(x), mixer.key(text)) / 8**0.5), mixer.value(text)))  # fmt: skip
    np.testing.assert_allclose(mixer(x), expected, atol=1e-5)
    chain = Star(2, 16, 0.0, gpt(0.5), is_ring=False)
    assert chain.explicit(x, Visible(np.array([[True, True, False]]))).shape == (1, 3, 16)
    with pytest.raises(ValueError, match="does not support `causal` of `Visible`"):
        Gpt2(Gpt2Config(50, 16, 1, 2, 32, mixer="star"))


@pytest.mark.parametrize("size", list(SIZES))
def test_sizes_have_the_parameters_of_their_formula(size):
    shape = SIZES[size]
    config = StarTransformerConfig(30, **shape)
    d, heads = config.hidden_dim, config.num_heads * config.head_dim
    attention = 3 * (d * heads + heads) + heads * d + d
    expected = (30 + 512) * d + config.num_layers * (2 * attention + 4 * d)
    assert StarTransformer(config).initialize().count_params() == expected


def test_heads_that_do_not_divide_the_width_are_refused():
    values = {"vocabulary_size": 9, "hidden_dim": 20, "num_heads": 6}
    with pytest.raises(CheckpointError, match="must be a multiple of `num_heads`.*Found: 20 and 6"):
        StarTransformerConfig.from_json(values)
    assert StarTransformerConfig.from_json(values | {"head_dim": 5}).head_dim == 5
    with pytest.raises(CheckpointError, match="`form` must be one of paper, code"):
        StarTransformerConfig.from_json(values | {"head_dim": 5, "form": "star"})
