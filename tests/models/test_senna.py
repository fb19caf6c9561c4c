"""SENNA: its equations, what a window sees, the loss against another reading of the text, and dictionaries that grow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.ops.slots import rare_as_unknown
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels.models.senna import Senna, SennaConfig
from xmodels.objectives.word_ranking import WordRanking
from xmodels.systems import senna
from xmodels.training.recipe import Records

CONFIG = SennaConfig(12, 6, embedding_dim=4, window_size=5)
IDS = np.array([[2, 7, 8, 9, 10, 3, 0, 0], [2, 5, 6, 11, 7, 8, 9, 3]])
BATCH = {"token_ids": IDS, "padding_mask": IDS > 0}


@pytest.fixture
def network():
    keras.utils.set_random_seed(1)
    made = Senna(CONFIG).initialize()
    made.embedding.embeddings.assign(2 * keras.random.normal((12, 4)))  # so large that the hidden layer has its limits
    return made


def test_the_hidden_layer_is_that_of_the_paper(network):
    found = np.array(network(BATCH)["sequence_output"])
    vectors = np.pad(np.array(network.embedding.embeddings)[IDS] * (IDS > 0)[..., None], [(0, 0), (2, 2), (0, 0)])
    kernel, bias = np.array(network.hidden.kernel).reshape(20, 6), np.array(network.hidden.bias)
    for place in range(8):
        states = np.clip(vectors[:, place : place + 5].reshape(2, 20) @ kernel + bias, -1, 1)
        np.testing.assert_allclose(found[:, place], states * (IDS[:, place] > 0)[:, None], atol=1e-5)
    assert (np.abs(found) == 1).any() and not found[0, 6:].any()


def test_a_state_sees_two_words_on_each_side_and_no_others(network):
    vectors = tf.Variable(network.embedding(IDS))
    network.embedding = lambda ids: vectors
    with tf.GradientTape() as tape:
        state = network(BATCH)["window_sums"][1, 4]
    gradient = np.abs(tape.gradient(state, vectors))[1].max(axis=-1)
    assert [place for place, size in enumerate(gradient) if size > 0] == [2, 3, 4, 5, 6]


def test_the_loss_is_that_of_reading_each_window_with_its_other_word(network):
    objective, others = WordRanking(CONFIG), np.array([[4, 4, 9, 5, 1, 6, 7, 8], [1, 5, 10, 11, 4, 9, 8, 6]])
    weights = ((IDS > 4) & (IDS > 0)).astype("float32")
    batch = {**BATCH, "other_ids": others, "label_weights": weights}
    (total, count), (right, _) = (next(iter(each.values())) for each in objective.score(network(BATCH), batch, network))
    score = np.array(objective.head.kernel)[:, 0]
    expected, hits = 0.0, 0
    for row, place in zip(*np.nonzero(weights), strict=True):
        changed = IDS.copy()
        changed[row, place] = others[row, place]
        own, other = (
            np.array(network({**BATCH, "token_ids": ids})["sequence_output"])[row, place] @ score
            for ids in (IDS, changed)
        )
        expected, hits = expected + max(0.0, 1 - own + other), hits + (own > other)
    assert float(total) == pytest.approx(expected, rel=1e-5) and (float(count), float(right)) == (weights.sum(), hits)


def test_words_beyond_the_dictionary_are_unknown_and_never_drawn():
    found = rare_as_unknown(8, 1)({"token_ids": tf.constant(IDS), "more": 3})
    np.testing.assert_array_equal(found["token_ids"], np.where(IDS < 8, IDS, 1))
    assert found["more"] == 3
    words = [f"w{i}" for i in range(20)]
    recipe = senna.recipe(
        Vocabulary([*SPECIAL_TOKENS, *words], "words.txt"), Records(32), "tiny", options=senna.Options(9)
    )
    rows = {
        "token_ids": tf.constant([[5, 6, 24, 7] * 5] * 4), "segment_lengths": tf.constant([[20, 0]] * 4),
        "seed": tf.constant([1, 2, 3, 4], tf.uint64),
    }  # fmt: skip
    batch = recipe.frame(rows)
    assert set(batch["other_ids"].numpy().ravel()) == {1, 5, 6, 7, 8}
    assert set(batch["token_ids"].numpy().ravel()) == {0, 1, 2, 3, 5, 6, 7}


def test_what_does_not_fit_is_named():
    with pytest.raises(CheckpointError, match="`window_size` must be odd"):
        SennaConfig.from_json({"vocabulary_size": 9, "hidden_dim": 3, "window_size": 4}, "config.json")
    with pytest.raises(UsageError, match="dictionary=3: pieces has no unknown word"):
        senna.recipe(
            Vocabulary(["[PAD]", "[CLS]", "[SEP]", "a", "b"], "pieces", required=()),
            Records(32),
            "tiny",
            options=senna.Options(3),
        )
