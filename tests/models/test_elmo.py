"""ELMo's network is that of bilm-tf, and keeps what its paper says of it."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.units.characters import BEGIN_SENTENCE, END_SENTENCE, spell, spell_mark
from xmodels.layers.projected_lstm import ProjectedLstm
from xmodels.layers.sampled_softmax import SampledSoftmax, log_expected_counts, log_uniform_sample
from xmodels.models.elmo import SIZES, Elmo, ElmoConfig
from xmodels.objectives.bidirectional_lm import BidirectionalLM

CONFIG = ElmoConfig(20, 16, cell_dim=24, dropout=0.0, filter_widths=(1, 2, 3), num_filters=(4, 4, 8))


def network(config=CONFIG):
    keras.utils.set_random_seed(3)
    return Elmo(config).initialize()


def batch(*sentences):
    """Rows `<S> words </S>` of sentences."""
    rows = [[spell_mark(BEGIN_SENTENCE), *spell(s.split()), spell_mark(END_SENTENCE)] for s in sentences]
    length = max(map(len, rows))
    characters = np.zeros((len(rows), length, 50), np.int32)
    for place, row in zip(characters, rows, strict=True):
        place[: len(row)] = row
    return {"character_ids": characters, "padding_mask": characters.any(axis=-1)}


def states(backbone, features):
    return np.stack([np.array(x) for x in backbone.hidden_states(features)])  # (3, B, L, D)


@pytest.mark.parametrize(("size", "count"), [("base", 93_600_864), ("medium", 28_027_744), ("small", 13_593_312)])
def test_published_numbers_of_parameters(size, count):
    config = ElmoConfig(5, **SIZES[size])
    filters = sum(config.num_filters)
    characters = 262 * 16 + sum((w * 16 + 1) * n for w, n in zip(config.filter_widths, config.num_filters, strict=True))
    highway = config.num_highway * 2 * (filters * filters + filters)
    out, cell = config.output_dim, config.cell_dim
    lstm = 2 * out * 4 * cell + 4 * cell + cell * out
    assert characters + highway + (filters + 1) * out + 4 * lstm == count
    if size == "small":
        assert Elmo(config).initialize().count_params() == count


def test_words_do_not_depend_on_their_context_and_directions_see_one_side_each():
    backbone = network()
    whole = states(backbone, batch("the cat sat on the mat"))
    other = states(backbone, batch("the cat sat on a mat"))  # <S> the cat sat on [the -> a] mat </S>
    before, behind = slice(0, 5), slice(6, None)
    np.testing.assert_allclose(whole[0][0, 1], whole[0][0, 5], atol=1e-6)  # "the", twice
    np.testing.assert_allclose(whole[0][0, :, :8], whole[0][0, :, 8:])  # h_0 is the word twice
    for layer in (1, 2):
        np.testing.assert_allclose(whole[layer][0, before, :8], other[layer][0, before, :8], atol=1e-6)
        np.testing.assert_allclose(whole[layer][0, behind, 8:], other[layer][0, behind, 8:], atol=1e-6)
        assert np.abs(whole[layer][0, behind, :8] - other[layer][0, behind, :8]).max() > 1e-4
        assert np.abs(whole[layer][0, before, 8:] - other[layer][0, before, 8:]).max() > 1e-4


def test_padding_and_other_rows_change_nothing():
    backbone = network()
    together, alone = states(backbone, batch("a", "many more words here")), states(backbone, batch("a"))
    np.testing.assert_allclose(together[:, :1, :3], alone, atol=1e-5)


def test_half_a_text_at_a_time_is_the_whole_one():
    """Of the direction that reads ahead; the other one reads a stream of its own."""
    backbone, features = network(), batch("one two three four five six", "six five four three two one")
    reversed_ids = features["character_ids"][:, ::-1]
    features = {**features, "reversed_character_ids": reversed_ids, **backbone.initial_memory(2)}
    whole = backbone(features)
    first = backbone({n: v if n == "memory" else v[:, :3] for n, v in features.items()})
    rest = {n: v[:, 3:] for n, v in features.items() if n != "memory"}
    second = backbone({**rest, "memory": first["memory"]})
    parts = np.concatenate([first["sequence_output"], second["sequence_output"]], axis=1)
    np.testing.assert_allclose(parts, whole["sequence_output"], atol=1e-5)
    np.testing.assert_allclose(second["memory"], whole["memory"], atol=1e-5)
    ahead = np.array(backbone({n: features[n] for n in ("character_ids", "padding_mask")})["sequence_output"])
    np.testing.assert_allclose(np.array(whole["sequence_output"])[..., :8], ahead[..., :8], atol=1e-5)
    # The second stream holds the same texts from their end, so its steps are the other direction's from its end.
    np.testing.assert_allclose(np.array(whole["sequence_output"])[:, ::-1, 8:], ahead[..., 8:], atol=1e-5)


def test_states_and_outputs_are_clipped():
    layer = ProjectedLstm(6, 4, 0.5, 0.25)
    x = 50.0 * np.random.default_rng(0).normal(size=(2, 9, 4)).astype("float32")
    for _ in range(2):  # the first call makes the weights
        found, state = layer(x, np.zeros((2, 10), "float32"))
        layer.steps.cell.projection.kernel.assign(ops.ones((6, 4)))
    assert np.abs(found).max() == 0.25 and np.abs(np.array(state)[:, 4:]).max() == 0.5


def test_the_second_layer_adds_its_input_outside_of_its_state():
    config = dataclasses.replace(CONFIG, has_skips=False)
    features = batch("the cat sat")
    with_skips, without = network(), network(config)
    for ours, theirs in zip(without.weights, with_skips.weights, strict=True):
        ours.assign(theirs)
    a, b = states(with_skips, features), states(without, features)
    np.testing.assert_allclose(a[1], b[1], atol=1e-6)
    np.testing.assert_allclose(a[2] - b[2], a[1], atol=1e-5)


def test_log_uniform_samples_come_as_often_as_expected():
    keras.utils.set_random_seed(1)
    drawn = np.bincount(np.array(log_uniform_sample(50, 200_000)), minlength=50)
    expected = np.exp(np.array(log_expected_counts(np.arange(50), 50, 200_000)))
    assert expected.sum() == pytest.approx(200_000, rel=1e-4)
    assert ((drawn - expected) ** 2 / expected).sum() < 90  # chi-square with 49 degrees of freedom


def test_a_large_sample_gives_the_loss_of_the_whole_softmax():
    keras.utils.set_random_seed(2)
    head = SampledSoftmax(40, 8)
    states, labels = keras.random.normal((16, 8)), np.arange(16) * 2
    whole = -np.array(ops.log_softmax(head.logits(states)))[np.arange(16), labels]
    logits = head.sampled_logits(states, labels, log_uniform_sample(40, 50_000))
    found = -np.array(ops.log_softmax(logits))[:, 0]
    np.testing.assert_allclose(found, whole, atol=0.05)


def test_training_compares_with_a_sample_and_evaluation_with_all_words():
    backbone, objective = network(), BidirectionalLM(CONFIG, num_sampled=6)
    features = batch("the cat sat on the mat", "a dog")
    rows, length = features["padding_mask"].shape
    labels = np.random.default_rng(0).integers(0, 20, (2, rows, length))
    features |= {
        "reversed_character_ids": features["character_ids"][:, ::-1],
        "labels": labels[0],
        "reversed_labels": labels[1],
    }
    features |= {"label_weights": features["padding_mask"].astype("float32")}

    def loss(training):
        outputs = objective.forward(backbone, features, training=training)
        losses, _ = objective.score(outputs, features, backbone)
        return losses["bidirectional_lm"]

    total, weight = map(float, loss(False))
    assert weight == 2 * features["padding_mask"].sum() and total / weight == pytest.approx(np.log(20), rel=0.2)
    with tf.GradientTape() as tape:
        total, weight = loss(True)
    assert np.isfinite(total) and weight == 2 * features["padding_mask"].sum()
    gradient = tape.gradient(total, objective.head.table.value)
    assert isinstance(gradient, tf.IndexedSlices)  # of the rows that the batch and the sample read
    assert BidirectionalLM(CONFIG, num_sampled=20).num_sampled is None
    of_a_sample = tf.function(lambda: loss(True)[0])
    sampled = np.mean([float(of_a_sample()) for _ in range(40)])
    assert sampled == pytest.approx(float(loss(False)[0]), rel=0.15)
