"""ModernBERT: positions are relative, local layers see a window, and packed rows are read as single ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels import systems
from xmodels.layers.attention.visible import Visible
from xmodels.layers.rotary_attention import RotaryAttention, turn
from xmodels.models.modernbert import SIZES, ModernBert, ModernBertConfig
from xmodels.systems import modernbert
from xmodels.training.recipe import Records

SMALL = ModernBertConfig(50, 16, 4, 2, 24, max_sequence_length=64, window=3, initializer_stddev=0.3)


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    return ModernBert(SMALL).initialize()


def test_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(0)
    query, key = (np.tile(rng.normal(size=(1, 1, 1, 8)), (1, 30, 1, 1)).astype("float32") for _ in range(2))
    scores = np.einsum("blhk,bshk->ls", np.array(turn(query, 100.0)), np.array(turn(key, 100.0)))
    for distance in range(-20, 20):
        np.testing.assert_allclose(
            np.diagonal(scores, distance), scores[max(-distance, 0), max(distance, 0)], atol=1e-4
        )
    assert scores.std() > 0.1
    np.testing.assert_allclose(np.linalg.norm(turn(query, 100.0), axis=-1), np.linalg.norm(query, axis=-1), rtol=1e-5)


@pytest.mark.parametrize("window", [3, None])
def test_attention_is_that_of_its_probabilities_and_local_layers_see_a_window(window):
    keras.utils.set_random_seed(1)
    mixer = RotaryAttention(2, 16, theta=100.0, window=window)
    x = tf.constant(np.random.default_rng(2).normal(size=(2, 20, 16)).astype("float32"))
    visible = Visible(np.arange(20) < np.array([[20], [13]]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = mixer(x, visible=visible)
        total = tf.reduce_sum(y[0, 8])
    np.testing.assert_allclose(y[0], mixer.explicit(x, visible)[0], atol=1e-5)
    np.testing.assert_allclose(y[1, :13], mixer.explicit(x, visible)[1, :13], atol=1e-5)
    seen = np.abs(tape.gradient(total, x)[0].numpy()).max(axis=-1) > 0
    assert np.flatnonzero(seen).tolist() == (list(range(5, 12)) if window else list(range(20)))


def test_packed_rows_are_read_as_single_ones(network):
    ids = np.random.default_rng(3).integers(5, 50, (1, 17)).astype("int32")
    packs = np.array([[1] * 9 + [2] * 6 + [0] * 2], "int32")
    packed = network({"token_ids": ids, "padding_mask": packs > 0, "pack_ids": packs})["sequence_output"]
    for part in (slice(0, 9), slice(9, 15)):
        single = network({"token_ids": ids[:, part], "padding_mask": np.ones_like(ids[:, part], bool)})
        np.testing.assert_allclose(packed[:, part], single["sequence_output"], atol=2e-5)


def test_padding_is_invisible(network):
    ids = np.random.default_rng(4).integers(5, 50, (1, 12)).astype("int32")
    whole = network({"token_ids": ids, "padding_mask": np.ones_like(ids, bool)})["sequence_output"]
    padded = np.pad(ids, ((0, 0), (0, 7)), constant_values=9)
    found = network({"token_ids": padded, "padding_mask": np.arange(19)[None] < 12})["sequence_output"]
    np.testing.assert_allclose(found[:, :12], whole, atol=2e-5)


@pytest.mark.parametrize(("size", "millions"), [("base", 149), ("large", 395)])
def test_sizes_have_the_published_numbers_of_parameters(size, millions):
    """Table 4. The formula holds for a network that is small enough to be built."""
    config = ModernBertConfig(50_368, **SIZES[size])
    d, f, n, v = config.hidden_dim, config.intermediate_dim, config.num_layers, config.vocabulary_size
    body = v * d + d + n * (4 * d * d + 3 * d * f + 2 * d) - d + d
    assert round(body / 1e6) == millions
    tiny = ModernBertConfig(50, 16, 4, 2, 24)
    d, f, n, v = 16, 24, 4, 50
    assert ModernBert(tiny).initialize().count_params() == v * d + d + n * (4 * d * d + 3 * d * f + 2 * d) - d + d


def test_heads_of_an_odd_width_are_refused():
    with pytest.raises(CheckpointError, match="even width, for rotary positions. Found: 18 and 6"):
        ModernBertConfig.from_json(
            {"vocabulary_size": 9, "hidden_dim": 18, "num_layers": 1, "num_heads": 6, "intermediate_dim": 8}
        )


def test_records_made_for_a_share_of_15_percent_leave_room_for_30():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *"abcdefgh"])
    found = systems.slots_of(modernbert, 0.15, 100, 15)
    assert found == 30 and systems.slots_of(modernbert, 0.4, 100, 15) == 40
    recipe = modernbert.recipe(vocabulary, Records(sequence_length=100, num_predictions=found), "tiny")
    features = {
        "token_ids": tf.constant(np.random.default_rng(0).integers(5, 13, (400, 100)).astype("int32")),
        "padding_mask": tf.ones((400, 100), tf.bool), "maskable": tf.ones((400, 100), tf.bool),
        "segment_ids": tf.zeros((400, 100), tf.int32), "seed": tf.range(400, dtype=tf.int64),
    }  # fmt: skip
    hidden = recipe.objective().transform()({**features, "seed": tf.cast(features["seed"], tf.uint64)})["label_weights"]
    assert float(tf.reduce_mean(tf.reduce_sum(hidden, axis=1))) == pytest.approx(30, abs=0.5)
