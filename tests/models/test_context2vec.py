"""context2vec never reads the word whose context it describes, and keeps what its paper and its released code say of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.ops.slots import word_slots
from xmodels.models.backbone import named_weights
from xmodels.models.context2vec import SIZES, Context2Vec, Context2VecConfig
from xmodels.objectives.words_in_context import WordsInContext

WORDS, LENGTH = 20, 64
CONFIG = Context2VecConfig(WORDS, 12, embedding_dim=6, recurrent_dim=8)
ROW = [2, 7, 8, 9, 10, 11, 3]  # [CLS] five words [SEP]


def network(config=CONFIG, seed=3):
    keras.utils.set_random_seed(seed)
    backbone = Context2Vec(config).initialize()
    for side in (backbone.ahead, backbone.back):  # the published ones are too small to see what they change
        side.words.embeddings.assign(keras.random.normal(side.words.embeddings.shape))
    return backbone


def batch(*rows):
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows], np.int32)
    return {"token_ids": ids, "padding_mask": ids > 0}


def contexts(backbone, *rows):
    return np.array(backbone(batch(*rows))["sequence_output"])


@pytest.mark.parametrize("head", ["deep", "shallow"])
def test_the_vector_of_a_place_has_no_gradient_from_its_own_word_and_one_from_every_other(head):
    backbone = network(Context2VecConfig(WORDS, 12, embedding_dim=6, recurrent_dim=8, head=head))
    tables = [backbone.ahead.words.embeddings.value, backbone.back.words.embeddings.value]
    for place, own in enumerate(ROW):
        with tf.GradientTape() as tape:
            total = ops.sum(backbone(batch(ROW))["sequence_output"][0, place] ** 2)
        ahead, back = (np.abs(tf.convert_to_tensor(each)).sum(axis=1) for each in tape.gradient(total, tables))
        assert ahead[own] == back[own] == 0.0
        assert (ahead[ROW[:place]] > 0).all() and (back[ROW[place + 1 :]] > 0).all()
        assert ahead[ROW[place + 1 :]].sum() == back[ROW[:place]].sum() == 0.0


def test_the_first_word_has_only_the_mark_on_its_left():
    backbone = network()
    before = [np.array(backbone.ahead(np.array([row]))) for row in (ROW, [2, 12, 13, 14, 3])]
    np.testing.assert_array_equal(before[0][0, 1], before[1][0, 1])
    assert not before[0][0, 0].any() and np.abs(before[0][0, 1]).max() > 0


def test_a_reversed_sentence_in_swapped_directions_has_the_same_vectors_reversed():
    ahead, behind = network(), network(seed=4)
    values = {name: weight.numpy() for name, weight in named_weights(ahead).items()}
    for name, weight in named_weights(behind).items():
        first, _, rest = name.partition(".")
        weight.assign(values[f"{ {'ahead': 'back', 'back': 'ahead'}.get(first, first) }.{rest}"])
    kernel = behind.head.expand.kernel
    kernel.assign(np.roll(values["head.expand.kernel"], 8, axis=0))  # the halves of both directions
    np.testing.assert_allclose(contexts(behind, ROW[::-1])[:, ::-1], contexts(ahead, ROW), atol=1e-6)


def test_padding_changes_nothing():
    backbone = network()
    together = contexts(backbone, [2, 7, 3], ROW)
    np.testing.assert_allclose(together[:1, :3], contexts(backbone, [2, 7, 3]), atol=1e-6)
    assert not together[0, 3:].any()


def test_word_order_matters():
    first, second = contexts(network(), [2, 7, 5, 8, 3]), contexts(network(), [2, 8, 5, 7, 3])
    assert np.abs(first[0, 2] - second[0, 2]).max() > 1e-3


def test_the_published_network_has_its_number_of_parameters():
    assert Context2Vec(Context2VecConfig(5, **SIZES["base"])).initialize().count_params() == 1200 * 5 + 6_486_600


def slots(rows, noise, negatives=32, seed=0):
    features = batch(*[row + [0] * (LENGTH - len(row)) for row in rows])
    features["maskable"] = features["token_ids"] > 4
    features["seed"] = tf.cast(tf.range(len(rows)) + 1000 * seed, tf.uint64)
    return word_slots(noise, negatives)(features)


def test_the_first_loss_is_that_of_eleven_coins_and_its_gradient_reaches_the_predicted_words_alone():
    backbone, objective, noise = network(), WordsInContext(10), np.arange(WORDS) / np.arange(WORDS).sum()
    found = slots([ROW, [2, 7, 8, 3]], noise)
    with tf.GradientTape() as tape:
        _, losses, _ = objective.run(backbone, found, training=True)
        total, weight = losses["negative_sampling"]
    assert float(weight) == 7 and float(total / weight) == pytest.approx(11 * np.log(2), rel=1e-5)
    weights = named_weights(backbone)
    found = tape.gradient(total, [weight.value for weight in weights.values()])
    gradients = dict(zip(weights, found, strict=True))
    assert np.abs(tf.convert_to_tensor(gradients.pop("targets.embeddings"))).max() > 0
    assert all(np.abs(tf.convert_to_tensor(each)).max() == 0 for each in gradients.values())


def test_the_loss_is_that_of_a_walk_over_words_and_their_negatives():
    backbone, noise = network(), np.arange(WORDS) / np.arange(WORDS).sum()
    table = np.random.default_rng(0).normal(size=(WORDS, 12)).astype("float32")
    backbone.targets.embeddings.assign(table)
    found = slots([ROW, [2, 7, 8, 3]], noise, negatives=4)
    _, losses, _ = WordsInContext(10).run(backbone, found, training=False)
    states = np.array(backbone(found)["sequence_output"])
    drawn = np.array(found["negative_ids"])  # (2, 4)
    expected = 0.0
    for row, words in enumerate([ROW, [2, 7, 8, 3]]):
        for place, word in enumerate(words[1:-1], 1):
            expected += np.logaddexp(0, -states[row, place] @ table[word])
            others = table[drawn[row]]  # the word itself counts where it is drawn
            expected += 10 / 4 * np.logaddexp(0, others @ states[row, place]).sum()
    assert float(losses["negative_sampling"][0]) == pytest.approx(expected, rel=1e-5)


def test_negatives_follow_their_distribution():
    noise = (np.arange(WORDS) / 10.0) ** 0.75
    noise /= noise.sum()
    drawn = np.array(slots([ROW] * 800, noise)["negative_ids"])  # (800, 32)
    for each in (drawn, drawn[:, :16], drawn[:, 16:], drawn[::7]):
        counts, expected = np.bincount(each.ravel(), minlength=WORDS), noise * each.size
        assert counts[0] == 0
        assert ((counts[1:] - expected[1:]) ** 2 / expected[1:]).sum() < 45  # chi-square with 18 degrees of freedom
