"""Attention within chunks: its limit, and what a token reaches. The battery is in `test_mixers.py`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers.attention.local_chunks import LocalChunks
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights


def mixer_of(**numbers):
    keras.utils.set_random_seed(0)
    mixer = LocalChunks(2, 16, 0.0, gpt(0.5), **{"chunk_size": 4, "chunks_before": 1, "chunks_after": 1, **numbers})
    mixer(np.zeros((1, 4, 16), "float32"))
    return mixer


def states(length=22):
    return np.random.default_rng(0).normal(size=(2, length, 16)).astype("float32")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("numbers", [{"chunk_size": 22}, {"chunks_before": 5, "chunks_after": 5}], ids=str)
def test_where_its_chunks_hold_the_text_it_is_full_attention(numbers, causal):
    mixer, full, x = mixer_of(**numbers), MultiHeadAttention(2, 16), states()
    full(x)
    for name, weight in named_weights(full).items():
        weight.assign(named_weights(mixer)[name])
    visible = Visible(causal=causal)
    np.testing.assert_allclose(mixer(x, visible=visible), full(x, visible=visible), atol=1e-5)


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (2, 1)])
def test_a_token_reaches_its_chunk_and_those_beside_it_but_not_around_the_ends(before, after):
    mixer, x = mixer_of(chunks_before=before, chunks_after=after), tf.constant(states())
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(mixer(x) * np.random.default_rng(2).normal(size=16), axis=-1)
    chunk = np.arange(22) // 4
    behind = np.subtract.outer(chunk, chunk)
    reached = np.abs(tape.batch_jacobian(y, x).numpy()).max(axis=-1) > 0
    np.testing.assert_array_equal(reached, np.broadcast_to((behind <= before) & (-behind <= after), (2, 22, 22)))
