"""Sparse attention: patterns and ways to combine them against explicit masks, what two layers reach, counts of keys. The battery
is `test_mixers.py`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers import mixers
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.sparse import SparseNumbers
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig

WAYS = [(pattern, combine) for pattern in ("fixed", "strided") for combine in ("interleaved", "merged", "heads")]
LENGTH, STRIDE, SUMMARY = 23, 5, 2


def mixer_of(index=0, **numbers):
    numbers = {"stride": STRIDE, "summary": SUMMARY} | numbers
    config = GptConfig(50, 16, 2, 2, 32, attention_dropout=0.0, mixer="sparse", mixer_numbers=numbers)
    keras.utils.set_random_seed(0)
    mixer = mixers.mixer_for(config, gpt(0.5), frozenset({"causal"}), index)
    mixer(np.zeros((1, 2, 16), "float32"), visible=Visible(causal=True))
    return mixer


def states(length=LENGTH):
    return np.random.default_rng(0).normal(size=(2, length, 16)).astype("float32")


def set_by_hand(pattern, which, length=LENGTH, stride=STRIDE):
    """Section 4.2 and 4.3 of the paper, cell by cell, with the window of the authors' code."""
    found = np.zeros((length, length), bool)
    for query in range(length):
        for key in range(query + 1):
            found[query, key] = {
                ("strided", 0): query - key < stride,
                ("strided", 1): (query - key) % stride == 0,
                ("fixed", 0): query // stride == key // stride,
                ("fixed", 1): key % stride >= stride - SUMMARY,
            }[pattern, which]
    return found


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("pattern", "combine"), WAYS)
def test_each_head_attends_to_its_cells(pattern, combine, index):
    mixer = mixer_of(index, pattern=pattern, combine=combine)
    first, second = set_by_hand(pattern, 0), set_by_hand(pattern, 1)
    expected = {"merged": [first | second] * 2, "interleaved": [(first, second)[index]] * 2, "heads": [first, second]}
    np.testing.assert_array_equal(mixer.reach(LENGTH), expected[combine])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["nothing", "padding", "packs"])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("pattern", "combine"), WAYS)
def test_it_is_dense_attention_with_its_mask_and_so_are_gradients(pattern, combine, index, kind):
    mixer, x = mixer_of(index, pattern=pattern, combine=combine), tf.constant(states())
    ends = np.arange(LENGTH) < np.array([[LENGTH], [17]])
    given = {"padding": ends, "packs": ((1 + np.arange(LENGTH) // 7) * ends).astype("int32")}.get(kind)
    visible, real = (
        Visible(causal=True, **({} if given is None else {kind: given})),
        ends[..., None] | (kind == "nothing"),
    )
    found = []
    for call in (mixer, mixer.explicit):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.where(real, call(x, visible=visible), 0.0) ** 2)
        found.append([loss, tape.gradient(loss, x)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("pattern", "combine"), WAYS)
def test_it_decodes_as_it_reads(pattern, combine):
    for index in (0, 1):
        mixer, x = mixer_of(index, pattern=pattern, combine=combine), states()
        past, place, found = mixer.start(2, LENGTH), 0, []
        for length in (1, 4, 1, 12, 5):
            y, past = mixer.step(x[:, place : place + length], past, place)
            found.append(y)
            place += length
        np.testing.assert_allclose(np.concatenate(found, axis=1), mixer(x, visible=Visible(causal=True)), atol=1e-5)


def test_a_query_without_keys_takes_nothing():
    mixer = mixer_of(1, pattern="fixed", combine="interleaved")
    bias = np.array(mixer.merge.bias)
    found = np.array(mixer(states(), visible=Visible(causal=True)))
    np.testing.assert_allclose(
        found[:, : STRIDE - SUMMARY], np.broadcast_to(bias, (2, STRIDE - SUMMARY, 16)), atol=1e-6
    )
    assert np.abs(found[:, STRIDE:] - bias).min(axis=-1).max() > 1e-4


@pytest.mark.parametrize("pattern", ["fixed", "strided"])
def test_a_block_that_holds_the_text_is_full_attention(pattern):
    mixer, full, x = mixer_of(pattern=pattern, stride=64), MultiHeadAttention(2, 16), states()
    full(x)
    for name, variable in named_weights(full).items():
        variable.assign(named_weights(mixer)[name])
    visible = Visible(causal=True)
    np.testing.assert_allclose(mixer(x, visible=visible), full(x, visible=visible), atol=1e-5)


@pytest.mark.parametrize(
    ("pattern", "first", "is_all"),
    [("strided", 0, True), ("strided", 1, True), ("fixed", 0, True), ("fixed", 1, False)],
)
def test_two_layers_reach_every_earlier_token(pattern, first, is_all):
    """With `fixed`, only if the lower layer has the blocks; that is why interleaved layers begin with them."""
    lower, upper = set_by_hand(pattern, first), set_by_hand(pattern, 1 - first)
    same = np.eye(LENGTH, dtype=bool)  # the residual sums
    reached = ((upper | same).astype(int) @ (lower | same).astype(int)) > 0
    assert (reached == np.tril(np.ones((LENGTH, LENGTH), bool))).all() == is_all


def test_rows_have_as_many_keys_as_the_paper_counts():
    for query, row in enumerate(set_by_hand("strided", 0)):
        assert row.sum() == min(query + 1, STRIDE)
        assert set_by_hand("strided", 1)[query].sum() == query // STRIDE + 1
        assert set_by_hand("fixed", 0)[query].sum() == query % STRIDE + 1
        own = max(0, query % STRIDE - (STRIDE - SUMMARY) + 1)
        assert set_by_hand("fixed", 1)[query].sum() == SUMMARY * (query // STRIDE) + own


def test_layers_of_a_network_have_the_two_halves_in_turn():
    numbers = {"stride": STRIDE, "summary": SUMMARY, "combine": "interleaved"}
    network = Gpt(GptConfig(50, 16, 3, 2, 32, mixer="sparse", mixer_numbers=numbers)).initialize()
    assert [block.mixer.parts[0] for block in network.blocks] == [(0,), (1,), (0,)]


def test_networks_that_see_both_sides_and_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="SparseAttention requires `causal` of `Visible`; set here: padding."):
        Bert(BertConfig(50, 16, 1, 2, 32, mixer="sparse"))
    with pytest.raises(ValueError, match="`summary` must be at most `stride`. Received: summary=6, stride=5."):
        SparseNumbers(summary=6, stride=5)
