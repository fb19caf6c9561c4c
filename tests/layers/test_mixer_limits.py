"""Limits in which axial, memory-compressed, synthetic, global-local, routed and sorted attention are known. The battery is
`test_mixers.py`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers import costs, mixers
from xmodels.layers.attention.longformer import Longformer
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.routing import unit
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig

LENGTH = 20


def mixer_of(name, index=0, **numbers):
    config = BertConfig(
        50, 16, 2, 2, 32, max_sequence_length=LENGTH, attention_dropout=0.0, mixer=name, mixer_numbers=numbers
    )
    keras.utils.set_random_seed(0)
    mixer = mixers.find(name).for_block(config, gpt(0.5), index)
    mixer(np.zeros((1, LENGTH, 16), "float32"))
    return mixer


def states(length=LENGTH):
    return np.random.default_rng(0).normal(size=(2, length, 16)).astype("float32")


def full_with_the_weights_of(mixer):
    full = MultiHeadAttention(2, 16)
    full(states())
    for name, weight in named_weights(full).items():
        weight.assign(named_weights(mixer)[name])
    return full


def visible_of(causal):
    return Visible(np.arange(LENGTH) < np.array([[LENGTH], [15]]), causal=causal)


def assert_full(mixer, causal, atol=1e-5):
    visible, x, full = visible_of(causal), states(), full_with_the_weights_of(mixer)
    real = np.array(visible.padding)
    found, expected = (np.array(each(x, visible=visible))[real] for each in (mixer, full))
    np.testing.assert_allclose(found, expected, atol=atol)


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_or_a_column_that_holds_the_text_is_full_attention(causal):
    assert_full(mixer_of("axial", columns=LENGTH), causal)
    assert_full(mixer_of("axial", index=1, columns=1), causal)


def test_two_axial_layers_join_any_two_tokens():
    rows, columns = (np.array(mixer_of("axial", index, columns=6).reach(LENGTH))[0] for index in (0, 1))
    assert not (rows & columns & ~np.eye(LENGTH, dtype=bool)).any()
    # But where the last row, which is shorter, would have the corner.
    joined = (rows.astype(int) @ columns.astype(int) + columns.astype(int) @ rows.astype(int)) > 0
    assert joined.all()


@pytest.mark.parametrize("causal", [False, True])
def test_groups_of_one_token_that_are_merged_by_nothing_are_full_attention(causal):
    mixer = mixer_of("memory_compressed", compression=1)
    for weights in (mixer.merge_keys, mixer.merge_values):
        weights.assign(np.broadcast_to(np.eye(8), weights.shape))
    assert_full(mixer, causal)


@pytest.mark.parametrize(("kind", "name"), [("random", "scores"), ("dense", "scores")])
def test_scores_that_are_all_alike_give_the_mean_of_values(kind, name):
    mixer, x = mixer_of("synthesizer", kind=kind), states()
    mixer.scores.assign(np.zeros(mixer.scores.shape))
    mean = ops.broadcast_to(ops.mean(mixer.value(x), axis=1, keepdims=True), (2, LENGTH, 2, 8))
    np.testing.assert_allclose(mixer(x), mixer.merge(mean), atol=1e-5)


def test_random_scores_do_not_look_at_the_text_and_dense_ones_look_at_the_query_only():
    x = states()
    other = np.concatenate([x[:, :1], 2 * x[:, 1:]], axis=1)
    for kind, rows in (("random", LENGTH), ("dense", 1)):
        mixer = mixer_of("synthesizer", kind=kind)
        before, after = (np.array(mixer.probabilities(each)) for each in (x, other))
        np.testing.assert_allclose(before[:, :, :rows], after[:, :, :rows], atol=1e-6)
    assert np.abs(before - after).max() > 1e-3


def test_synthetic_scores_end_with_the_longest_text():
    with pytest.raises(ValueError, match="texts of at most 20 tokens .*Received: 21 tokens"):
        mixer_of("synthesizer")(states(21))
    with pytest.raises(ValueError, match="at most 5 blocks of 4 tokens .*Received: 6 blocks"):
        mixer_of("sinkhorn", block_size=4)(states(21))


def test_projections_that_are_all_alike_are_longformer_and_within_the_window_full_attention():
    for window in (3, LENGTH):
        mixer, x = mixer_of("etc", window=window, num_global=4), states()
        weights = named_weights(mixer)
        for own, other in mixer.copies.items():
            for part in ("kernel", "bias"):
                weights[f"{own}.{part}"].assign(weights[f"{other}.{part}"])
        config = BertConfig(
            50,
            16,
            2,
            2,
            32,
            mixer="longformer",
            mixer_numbers={"window": window, "num_global": 4},
            attention_dropout=0.0,
        )
        longformer = Longformer.for_block(config, gpt(0.5))
        longformer(x)
        for name, weight in named_weights(longformer).items():
            weight.assign(weights[name])
        marks = np.zeros((2, LENGTH), "int32")
        marks[:, [0, 7]] = 1
        visible = Visible(visible_of(False).padding, global_ids=marks)
        real = np.array(visible.padding)
        np.testing.assert_allclose(
            np.array(mixer(x, visible=visible))[real], np.array(longformer(x, visible=visible))[real], atol=1e-5
        )
    assert_full(mixer, False)


def routed_together(mixer, x, causal):
    """Full attention of directions with themselves."""
    tokens = unit(mixer.query(x))
    scores = ops.einsum("bqhk,bshk->bhqs", tokens, tokens) * mixer.scale
    scores = ops.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9) if causal else scores
    return mixer.merge(ops.einsum("bhqs,bshk->bqhk", ops.softmax(scores), mixer.value(x)))


@pytest.mark.parametrize("causal", [False, True])
def test_a_single_cluster_is_full_attention_and_so_is_decoding(causal):
    mixer, x = mixer_of("routing", num_clusters=1), states()
    expected = routed_together(mixer, x, causal)
    np.testing.assert_allclose(mixer(x, visible=Visible(causal=causal)), expected, atol=1e-5)
    if causal:
        past, found = mixer.start(2, LENGTH), []
        for place in range(LENGTH):
            y, past = mixer.step(x[:, place : place + 1], past, place)
            found.append(y)
        np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-4)


def test_centroids_are_pulled_to_their_tokens_by_a_cost_that_the_network_pays():
    mixer, x = mixer_of("routing", num_clusters=3, commitment=1.0), states()

    def cost():
        with costs.collect() as found:
            mixer(x)
        total, weight = found["routing"]
        return total / weight

    with tf.GradientTape() as tape:
        before = cost()
    slope = tape.gradient(before, mixer.centroids.value)
    mixer.centroids.assign(mixer.centroids - 0.5 * slope)
    assert 0.0 < float(cost()) < float(before) < 2.0
    network = Gpt(GptConfig(50, 16, 1, 2, 32, mixer="routing", max_sequence_length=64))
    assert network.blocks[0].mixer.centroids.shape[1] == 8


def test_an_order_of_blocks_has_rows_and_columns_that_sum_to_one():
    mixer, x = mixer_of("sinkhorn", block_size=4, num_iterations=100), states()
    order = np.array(mixer.order(ops.convert_to_tensor(x), np.ones((2, 5, 4), "float32")))
    np.testing.assert_allclose(order.sum(axis=-1), 1.0, atol=1e-3)
    np.testing.assert_allclose(order.sum(axis=-2), 1.0, atol=1e-3)
    assert order.min() >= 0.0 and order.max() > 0.3


def test_a_single_block_is_full_attention():
    for is_causal in (False, True):
        assert_full(mixer_of("sinkhorn", block_size=LENGTH), is_causal)


def test_an_order_of_blocks_that_is_causal_mixes_what_stood_before_and_does_not_depend_on_the_rest():
    mixer, x = mixer_of("sinkhorn", block_size=4, num_iterations=100), states()
    order = np.array(mixer.order_causally(ops.convert_to_tensor(x), np.ones((2, 5, 4), "float32")))
    assert not np.triu(order).any() and order.min() >= 0.0
    # A column is divided by its sum so far, so what a block gives to the next one is all that it has given.
    np.testing.assert_allclose(np.diagonal(order, -1, axis1=-2, axis2=-1), 1.0, atol=1e-5)
    changed = np.array(x)
    changed[:, 9:] += 1.0  # block 2 has the tokens 8 to 11
    other = np.array(mixer.order_causally(ops.convert_to_tensor(changed), np.ones((2, 5, 4), "float32")))
    np.testing.assert_array_equal(order[:, :, :3], other[:, :, :3])
    assert np.abs(order - other)[:, :, 3:].max() > 1e-4


@pytest.mark.parametrize("name", ["etc"])
def test_those_without_a_causal_form_say_so(name):
    with pytest.raises(ValueError, match="does not support `causal` of `Visible`"):
        Gpt(GptConfig(50, 16, 1, 2, 32, mixer=name))
    Bert(BertConfig(50, 16, 1, 2, 32, mixer=name))
