"""LSH attention: parity with the reference for given rotations, its hashes, sorting, limits, and draws. The battery is in
`test_mixers.py`."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers.attention.lsh import LshAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.initialization import gpt
from xmodels.layers.sorted_buckets import Sorted, factors_of
from xmodels.models.gpt import Gpt, GptConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "lsh_attention"
NUMBERS = {
    "chunk_size": 4, "num_hashes": 2, "num_buckets": 4, "chunks_after": 0, "key_norm": "paper", "duplicates": "all",
    "across_buckets": True,
}  # fmt: skip


def mixer_of(num_heads=2, width=16, **numbers):
    keras.utils.set_random_seed(0)
    mixer = LshAttention(num_heads, width, 0.0, gpt(0.5), **{**NUMBERS, "index": 0, **numbers})
    mixer(np.zeros((1, 4, width), "float32"))
    return mixer


def states(length, width=16):
    return np.random.default_rng(0).normal(size=(2, length, width)).astype("float32")


@pytest.mark.parametrize("case", ["lsh_causal", "lsh_no_duplicates_within_buckets"])
@pytest.mark.parametrize("is_padded", [False, True], ids=["whole", "padded"])
def test_it_mixes_what_the_reference_mixes(case, is_padded):
    numbers = json.loads((GOLDEN / case / "config.json").read_text())["hyperparameters"]
    inputs, outputs = (dict(np.load(GOLDEN / case / f"{part}.npz")) for part in ("inputs", "outputs"))
    x, rotations = inputs["query_key"], inputs["rotations"]
    mixer = mixer_of(
        num_heads=1, width=x.shape[2], chunk_size=numbers["bucket_size"], num_hashes=numbers["num_hashes"],
        num_buckets=x.shape[1] // numbers["bucket_size"], duplicates="all" if numbers["allow_duplicates"] else "once",
        across_buckets=numbers["attend_across_buckets"],
    )  # fmt: skip
    mixer.rotations = rotations
    real = inputs["padding_mask"] if is_padded else np.ones_like(inputs["padding_mask"])
    if not is_padded:
        found = np.array(mixer.buckets(x[:, None], real))[:, 0]
        found = found - np.arange(numbers["num_hashes"])[:, None]  # the reference has no bucket of padding
        np.testing.assert_array_equal(found.reshape(2, -1), outputs["buckets"])
    else:  # the reference leaves padding in the buckets of its states
        bucketed = mixer.buckets
        mixer.buckets = lambda x, real, training=None: bucketed(x, np.ones_like(inputs["padding_mask"]), training)
    visible = Visible(real > 0 if is_padded else None, causal=numbers["causal"])
    each = [ops.convert_to_tensor(part[:, :, None]) for part in (x, x, inputs["value"])]
    found = np.array(mixer.mix(*each, visible))[:, :, 0]
    # Scores of -5e4 are rounded in its softmax, so that the weights of a token that sees itself only do not sum to one.
    sums = outputs["masked_attention" if is_padded else "attention"].sum(axis=-1, keepdims=True)
    expected = outputs["masked_output" if is_padded else "output"] / sums
    some = np.ones(x.shape[:2], bool) if not is_padded else real > 0
    np.testing.assert_allclose(found[some], expected[some], atol=1e-4)


def test_a_vector_and_its_double_share_a_bucket_and_its_opposite_is_half_the_buckets_away():
    mixer, x, real = mixer_of(num_buckets=8), states(12)[:, None].reshape(2, 2, 12, 8), np.ones((2, 12), "int32")
    bucket = np.array(mixer.buckets(x, real))
    np.testing.assert_array_equal(mixer.buckets(3 * x, real), bucket)
    rounds = np.arange(2)[:, None] * 9
    np.testing.assert_array_equal(mixer.buckets(-x, real), (bucket - rounds + 4) % 8 + rounds)
    real[:, 9:] = 0
    np.testing.assert_array_equal(np.array(mixer.buckets(x, real))[..., 9:] - rounds, 8)


@pytest.mark.parametrize(("count", "factors"), [(7, (8,)), (128, (128,)), (130, (16, 10)), (512, (32, 16))])
def test_many_buckets_are_pairs_of_two_hashes(count, factors):
    assert factors_of(count) == factors
    mixer = mixer_of(num_buckets=count)
    found = np.array(
        mixer.buckets(
            np.random.default_rng(1).normal(size=(1, 2, 4000, 8)).astype("float32"), np.ones((1, 4000), "int32")
        )
    )
    assert found[:, :, 0].min() >= 0 and found[:, :, 0].max() < mixer.num_buckets
    assert len(np.unique(found[:, :, 0])) > 0.6 * mixer.num_buckets


def test_sorting_holds_every_token_once_a_round_and_is_undone():
    buckets = np.random.default_rng(0).integers(5, size=(2, 3, 2, 12)) + np.arange(2)[:, None] * 5
    found = Sorted(ops.convert_to_tensor(buckets.astype("int32")), 4)
    places = np.array(found.places).reshape(2, 3, 2, 12)
    np.testing.assert_array_equal(np.sort(places, axis=-1), np.broadcast_to(np.arange(12), places.shape))
    x = np.random.default_rng(1).normal(size=(2, 3, 12, 4)).astype("float32")
    again = np.array(found.restore_order(ops.reshape(found.chunks(x), (2, 3, 24, 4))))
    np.testing.assert_array_equal(again, np.broadcast_to(x[:, :, None], again.shape))


def shared_attention(mixer, x, causal):
    """Full attention whose queries are the keys, to itself only where there is nothing else."""
    query = np.array(ops.transpose(mixer.query(x), (0, 2, 1, 3)))
    scores = np.einsum("bhqk,bhsk->bhqs", query, np.array(mixer.normalize(query)))
    scores = np.where(np.eye(x.shape[1], dtype=bool), -1e5, scores)
    scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -1e9) if causal else scores
    return mixer.merge(ops.einsum("bhqs,bshk->bqhk", ops.softmax(scores), mixer.value(x)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("numbers", [{"chunk_size": 16, "num_hashes": 3}, {"chunk_size": 8, "num_hashes": 1}], ids=str)
def test_a_chunk_or_two_that_hold_the_text_are_full_attention(numbers, causal):
    mixer, x = mixer_of(**numbers), states(16)
    np.testing.assert_allclose(mixer(x, visible=Visible(causal=causal)), shared_attention(mixer, x, causal), atol=1e-5)


def test_it_decodes_as_full_attention():
    mixer, x = mixer_of(chunk_size=16), states(16)
    past, found = mixer.start(2, 16), []
    for place in range(16):
        y, past = mixer.step(x[:, place : place + 1], past, place)
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found, axis=1), shared_attention(mixer, x, True), atol=1e-4)


@pytest.mark.long
def test_more_rounds_come_closer_to_full_attention():
    centres = np.random.default_rng(3).normal(size=(8, 16))
    x = (centres[np.random.default_rng(4).integers(8, size=(2, 64))] + 0.1 * states(64)).astype("float32")
    errors = []
    for rounds in (1, 2, 4, 8):
        found = [mixer_of(num_hashes=rounds, num_buckets=16, duplicates="once", index=index) for index in range(6)]
        errors.append(
            np.mean([np.abs(np.array(mixer(x) - shared_attention(mixer, x, False))).mean() for mixer in found])
        )
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.7 * errors[0]


def test_no_gradient_comes_from_later_tokens():
    mixer, x = mixer_of(num_hashes=1), tf.constant(states(24))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(mixer(x, visible=Visible(causal=True)) * np.random.default_rng(2).normal(size=16), axis=-1)
    assert not np.triu(np.abs(tape.batch_jacobian(y, x).numpy()).max(axis=-1), 1).any()


def test_training_hashes_by_the_seed_of_its_step_and_evaluation_by_the_layer():
    mixer, x = mixer_of(), states(24)
    np.testing.assert_array_equal(mixer(x), mixer(x, training=False))
    found = []
    for seed in (1, 1, 2):
        with dropout_seed(np.array([seed, 5])):
            found.append(np.array(mixer(x, training=True)))
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 1e-3
    assert np.abs(np.array(mixer_of(index=1)(x) - mixer(x))).max() > 1e-3


def test_an_order_that_no_int32_holds_is_refused():
    mixer = mixer_of(num_buckets=(64, 128))
    mixer.check(100_000)
    with pytest.raises(ValueError, match="buckets, 8,193, times rounds, 2, times tokens, 524,288"):
        mixer.check(524_288)


def test_the_number_of_buckets_follows_the_longest_text():
    network = Gpt(GptConfig(50, 16, 1, 2, 32, max_sequence_length=40, mixer="lsh", mixer_numbers={"chunk_size": 8}))
    assert network.blocks[0].mixer.num_buckets == 10 and network.blocks[0].mixer.key is network.blocks[0].mixer.query
