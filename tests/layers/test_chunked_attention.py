"""Attention in chunks of queries: what it shares with attention at once, and dropout whose masks are drawn in a loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers import mixers
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import active_seed, dropout_seed
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.bert import BertConfig
from xmodels.training.watching import flops

LENGTH, WIDTH = 23, 16


def make(name, dropout=0.0, **numbers):
    keras.utils.set_random_seed(1)
    sizes = {"max_sequence_length": LENGTH, "attention_dropout": dropout, "mixer": name, "mixer_numbers": numbers}
    mixer = mixers.find(name).for_block(BertConfig(50, WIDTH, 2, 2, 32, **sizes), gpt(0.5), 0, {})
    mixer(inputs(), visible=Visible())
    for key, weight in sorted(named_weights(mixer).items()):
        weight.assign(np.random.default_rng(len(key)).normal(0, 0.4, weight.shape))
    return mixer


def inputs(seed=0, length=LENGTH):
    return tf.constant(np.random.default_rng(seed).normal(size=(2, length, WIDTH)), "float32")


@pytest.mark.parametrize("chunk_size", [1, 5, 8, 23, 99])
def test_any_size_of_chunks_gives_what_attention_gives_at_once(chunk_size):
    real, order = (
        np.arange(LENGTH) < [[LENGTH], [18]],
        np.random.default_rng(2).permuted(np.tile(np.arange(LENGTH), (2, 1)), axis=1),
    )
    whole, chunked = make("multi_head"), make("chunked", chunk_size=chunk_size)
    for visible in (
        Visible(padding=real), Visible(causal=True, padding=real, order=order.astype("int32")),
        Visible(padding=real, causal=True, prefix=np.array([4, 0], "int32")),
        Visible(packs=1 + np.arange(LENGTH)[None].repeat(2, 0) // 9), Visible(order=order.astype("int32")),
        Visible(window=3, global_ids=(order < 2).astype("int32")),
    ):  # fmt: skip
        expected = whole(inputs(), visible=visible)
        np.testing.assert_allclose(chunked(inputs(), visible=visible), expected, atol=1e-5, err_msg=visible.given())


def test_queries_attend_to_a_context_of_another_length():
    context = inputs(3, 11)
    expected = make("multi_head")(inputs(), context=context)
    np.testing.assert_allclose(make("chunked", chunk_size=4)(inputs(), context=context), expected, atol=1e-5)


@pytest.mark.parametrize(("is_causal", "compiled"), [(False, True), (True, False)])
def test_the_gradient_is_that_of_the_masks_that_were_drawn(is_causal, compiled):
    """A directional derivative knows nothing of how a gradient is computed."""
    mixer, direction = make("chunked", 0.3, chunk_size=5), inputs(7)

    @tf.function(jit_compile=compiled)
    def loss_and_gradient(x):
        with dropout_seed(tf.constant([3, 4])), tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(mixer(x, visible=Visible(causal=is_causal), training=True) ** 2)
            drawn = active_seed().draws
        return loss, tape.gradient(loss, x), drawn

    x, step = inputs(), 1e-2
    _, gradient, drawn = loss_and_gradient(x)
    ahead, behind = (loss_and_gradient(x + sign * step * direction)[0] for sign in (1, -1))
    assert float(tf.reduce_sum(gradient * direction)) == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-2)
    assert drawn > 0, "the layer behind it draws other masks"


def test_chunks_draw_masks_of_their_own():
    mixer = make("chunked", 0.5, chunk_size=4)
    same = tf.repeat(inputs(0, 1), 12, axis=1)  # every query and every key alike
    with dropout_seed(tf.constant([3, 4])):
        found = tf.reshape(mixer(same, training=True), (2, 3, 4, WIDTH))
    assert all(np.abs(found[:, i] - found[:, j]).max() > 1e-3 for i, j in ((0, 1), (0, 2), (1, 2)))
    with dropout_seed(tf.constant([3, 4])):
        np.testing.assert_array_equal(tf.reshape(mixer(same, training=True), (2, 3, 4, WIDTH)), found)


def test_a_size_of_chunks_below_one_is_refused():
    with pytest.raises(ValueError, match="`chunk_size` must be at least 1. Received: 0"):
        make("chunked", chunk_size=0)


def test_a_pass_counts_as_many_operations_as_that_of_attention_at_once():
    found = [
        flops.count(flops.trace(lambda features, m=mixer: m(features["x"]), {"x": inputs(0, 24)}))
        for mixer in (make("multi_head"), make("chunked", chunk_size=8))
    ]
    assert found[0] == found[1]
