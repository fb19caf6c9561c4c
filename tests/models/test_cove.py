"""CoVe's encoder, its decoder and the biattentive network on top are what their paper and PyTorch say of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers.biattentive import BiattentiveNetwork, Maxout, texts_of
from xmodels.layers.initialization import uniform
from xmodels.layers.input_feeding import InputFeedingDecoder
from xmodels.layers.recurrent import Bidirectional, LstmCell, Recurrent, TextsBidirectional
from xmodels.models.backbone import named_weights
from xmodels.models.cove import SIZES, Cove, CoveConfig
from xmodels.objectives.translation import Translation

CONFIG = CoveConfig(20, 14, embedding_dim=6, dropout=0.0)
ROW = [7, 8, 9, 10, 11]


def drawn(layer, scale=0.5):
    for i, variable in enumerate(layer.weights):
        variable.assign(np.random.default_rng(i).normal(0, scale, variable.shape))
    return layer


def network(config=CONFIG):
    return drawn(Cove(config).initialize())


def batch(*rows, seconds=None):
    """Rows of ids; `seconds` are second texts, behind the first ones."""
    seconds = seconds or [[]] * len(rows)
    length = max(len(a) + len(b) for a, b in zip(rows, seconds, strict=True)) + 1
    ids, segments = np.zeros((2, len(rows), length), np.int32)
    for i, (a, b) in enumerate(zip(rows, seconds, strict=True)):
        ids[i, : len(a) + len(b)] = [*a, *b]
        segments[i, len(a) : len(a) + len(b)] = 1
    return {"token_ids": ids, "padding_mask": ids > 0} | ({"segment_ids": segments} if any(seconds) else {})


def states(backbone, *rows, **more):
    return np.array(backbone(batch(*rows, **more))["sequence_output"])


def test_the_published_encoder_has_its_number_of_parameters():
    assert Cove(CoveConfig(5, **SIZES["base"])).initialize().count_params() == 5 * 300 + 3_604_800


def test_rows_with_padding_are_those_without_and_padding_is_zeros():
    backbone = network()
    together = states(backbone, [7, 8], ROW)
    np.testing.assert_allclose(together[0, :2], states(backbone, [7, 8])[0, :2], atol=1e-6)
    assert not together[0, 2:].any()


def test_context_vectors_see_both_sides_and_word_vectors_only_the_word():
    backbone = network()
    table = backbone.embedding.embeddings.value
    for part, others in ((slice(0, 6), False), (slice(6, None), True)):
        with tf.GradientTape() as tape:
            total = ops.sum(backbone(batch(ROW))["sequence_output"][0, 2, part] ** 2)
        found = np.abs(tf.convert_to_tensor(tape.gradient(total, table))).sum(axis=1)
        assert found[9] > 0 and (found[[7, 8, 10, 11]] > 0).tolist() == [others] * 4


def test_words_without_a_vector_differ_by_their_context_alone():
    backbone = network()
    table = np.array(backbone.embedding.embeddings)
    table[12:14] = 0.0
    backbone.embedding.embeddings.assign(table)
    found = states(backbone, [7, 12, 8, 13, 12], [7, 13, 8, 12, 13])
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0, 1] - found[0, 3]).max() > 1e-3


def test_two_texts_in_a_row_know_nothing_of_each_other():
    backbone = network()
    both = states(backbone, [7, 8, 9], ROW, seconds=[[10, 11], [12]])
    for row, first, second in ((0, [7, 8, 9], [10, 11]), (1, ROW, [12])):
        for text, begin in ((first, 0), (second, len(first))):
            np.testing.assert_allclose(both[row, begin : begin + len(text)], states(backbone, text)[0, :-1], atol=1e-6)


def test_a_row_of_one_text_is_that_of_a_plain_bidirectional_lstm():
    x, real = (
        np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32"),
        np.array([[1] * 5, [1, 1, 1, 0, 0]], bool),
    )
    ours, plain = TextsBidirectional(3), Bidirectional(Recurrent(LstmCell(3)), Recurrent(LstmCell(3)))
    for layer in (ours, plain):
        layer(x, real)
        drawn(layer)
    np.testing.assert_allclose(ours(x, real)[0], plain(x, real), atol=1e-6)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(gates, h, c, recurrent):
    i, f, g, o = np.split(gates + h @ recurrent, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def test_the_decoder_is_a_walk_with_input_feeding():
    keras.utils.set_random_seed(0)
    layer, draw = InputFeedingDecoder(20, 3, 4, 2, uniform(0.1)), np.random.default_rng(0)
    source, last = draw.normal(size=(1, 5, 4)).astype("float32"), draw.normal(size=(4, 1, 4)).astype("float32")
    real, target = np.array([[1, 1, 1, 0, 0]], bool), np.array([[0, 7, 8]])
    layer(target, source, real, np.swapaxes(last, 0, 1))
    drawn(layer)
    found = np.array(layer(target, source, real, np.swapaxes(last, 0, 1)))[0]
    w = {name: np.array(value) for name, value in named_weights(layer).items()}
    fed, (h0, c0, h1, c1) = np.zeros(4), last[:, 0].astype("float64")
    for step, word in enumerate(target[0]):
        gates = w["words.embeddings"][word] @ w["gates.kernel"] + w["gates.bias"] + fed @ w["steps.cell.fed.kernel"]
        h0, c0 = lstm(gates, h0, c0, w["steps.cell.cells.0.recurrent.kernel"])
        gates = h0 @ w["steps.cell.gates.0.kernel"] + w["steps.cell.gates.0.bias"]
        h1, c1 = lstm(gates, h1, c1, w["steps.cell.cells.1.recurrent.kernel"])
        scores = np.exp(source[0, :3] @ w["key.kernel"] @ h1)
        context = scores @ source[0, :3] / scores.sum()
        fed = np.tanh(np.concatenate([context, h1]) @ w["steps.cell.join.kernel"])
        np.testing.assert_allclose(found[step], fed, atol=1e-5)


def test_the_decoder_begins_with_the_states_behind_the_source():
    backbone = network()
    found = np.array(backbone(batch([7, 8], ROW))["encoder_states"])
    assert found.shape == (2, 4, 8)  # h and c of two layers
    np.testing.assert_allclose(found[0], np.array(backbone(batch([7, 8]))["encoder_states"])[0], atol=1e-6)
    outputs = np.array(backbone(batch(ROW))["encoder_output"])[0]
    np.testing.assert_allclose(found[1, 2], np.concatenate([outputs[4, :4], outputs[0, 4:]]), atol=1e-6)


def test_translation_has_the_loss_of_chance_at_first_and_padding_of_the_source_changes_nothing():
    backbone, objective = Cove(CONFIG).initialize(), Translation(CONFIG)
    target = np.array([[0, 12, 13, 2]])
    features = batch(ROW) | {"target_ids": target, "labels": target, "label_weights": np.ones((1, 4), "float32")}
    _, losses, _ = objective.run(backbone, features)
    total, weight = losses["seq2seq"]
    assert float(total / weight) == pytest.approx(np.log(20), rel=0.05)
    longer = {n: np.pad(v, [(0, 0), (0, 3)]) if n in ("token_ids", "padding_mask") else v for n, v in features.items()}
    _, again, _ = objective.run(backbone, longer)
    assert float(again["seq2seq"][0]) == pytest.approx(float(total), rel=1e-5)


@pytest.fixture(scope="module")
def compare():
    """A biattentive network, as a function of the features of two texts."""
    layer, table = (
        BiattentiveNetwork(4, dropout=0.0, norm="layer"),
        np.random.default_rng(5).normal(size=(20, 6)).astype("float32"),
    )
    first = batch(ROW, seconds=[[12]])
    layer(table[first["token_ids"]], first["padding_mask"], first["segment_ids"])
    drawn(layer, 0.3)

    def call(*rows, seconds=None, method=None):
        features = batch(*rows, seconds=seconds)
        segments = features.get("segment_ids", np.zeros_like(features["token_ids"]))
        return np.array((method or layer)(table[features["token_ids"]], features["padding_mask"], segments))

    call.layer = layer
    return call


def test_tokens_attend_to_real_tokens_of_the_other_text(compare):
    layer = compare.layer
    found = compare(ROW, [7, 8], seconds=[[12, 13, 14], [9]], method=layer.shares)
    np.testing.assert_allclose(found.sum(axis=2), 1.0, atol=1e-6)
    assert not found[0, :5, :5].any() and not found[0, 5:8, 5:].any() and not found[0, :5, 8:].any()
    assert found[1, 0, 2] == found[1, 1, 2] == 1.0 and (found[0, :5, 5:8] > 0).all()
    alone = compare(ROW, method=layer.shares)
    assert (alone[0, :5, :5] > 0).all() and not alone[0, :, 5:].any()


def test_attention_and_both_lstms_are_those_of_the_formula(compare):
    """X|y is the integrator over [X; X - Cy; X * Cy], where Cy sums Y by the softmax of X Y^T over Y."""
    layer, table = compare.layer, np.random.default_rng(5).normal(size=(20, 6)).astype("float32")
    texts = np.array([ROW]), np.array([[12, 13, 14]])
    x, y = (np.array(layer.encoder(layer.read(table[ids]), np.ones(ids.shape, bool))[0])[0] for ids in texts)
    scores = np.exp(x @ y.T)  # (n, m)
    of_x = scores / scores.sum(axis=1, keepdims=True) @ y
    of_y = (scores / scores.sum(axis=0, keepdims=True)).T @ x
    pools = []
    for states, other in ((x, of_x), (y, of_y)):
        joined = np.concatenate([states, states - other, states * other], axis=-1)[None]
        states = np.array(layer.integrator(joined, np.ones(joined.shape[:2], bool))[0])[0]
        shares = np.exp(np.array(layer.score(states[None]))[0])
        pools += [states.max(0), states.mean(0), states.min(0), (states * shares / shares.sum()).sum(0)]
    vector = np.concatenate(pools)[None]
    for maxout in layer.maxouts:
        vector = maxout(vector)
    np.testing.assert_allclose(compare(ROW, seconds=[[12, 13, 14]]), vector, atol=1e-4)


@pytest.mark.parametrize(("norm", "axis"), [("layer", 1), ("batch", 0)])
def test_layer_norm_is_over_the_dimensions_of_a_row_and_batch_norm_over_the_rows(norm, axis):
    layer, x = Maxout(4, 3, norm), np.random.default_rng(6).normal(1.0, 2.0, size=(6, 5)).astype("float32")
    found = np.array(layer(x, training=True))
    largest = (x @ np.array(layer.dense.kernel)).reshape(6, 4, 3).max(-1)
    normal = (largest - largest.mean(axis, keepdims=True)) / np.sqrt(largest.var(axis, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, normal, atol=1e-4)
    other = np.concatenate([x[:1], -x[1:]])  # the first row beside others
    same = np.allclose(found[0], np.array(layer(other, training=True))[0], atol=1e-5)
    assert same == (norm == "layer")
    np.testing.assert_allclose(layer(x)[0], layer(other)[0], atol=1e-5)  # not in training


def test_swapped_texts_swap_the_pools_and_a_single_text_stands_for_both(compare):
    layer, pools = compare.layer, []
    pool = layer.pool
    layer.pool = lambda x, real: pools.append(np.array(pool(x, real))) or pool(x, real)
    try:
        compare(ROW, seconds=[[12, 13]])
        compare([12, 13], seconds=[ROW])
        compare(ROW)
        compare(ROW, seconds=[ROW])
    finally:
        del layer.pool
    (x, y), (y_again, x_again), alone, twice = (pools[i : i + 2] for i in range(0, 8, 2))
    np.testing.assert_allclose(x, x_again, atol=1e-5)
    np.testing.assert_allclose(y, y_again, atol=1e-5)
    for each in (alone[1], *twice):
        np.testing.assert_allclose(each, alone[0], atol=1e-5)


def test_padding_and_other_rows_do_not_change_a_comparison(compare):
    together = compare([7, 8], ROW, seconds=[[9], [12, 13, 14]])
    np.testing.assert_allclose(together[:1], compare([7, 8], seconds=[[9]]), atol=1e-5)
    assert np.isfinite(compare([], [7])).all()  # an empty text
    first, second = texts_of(np.array([[True, True]]), np.array([[0, 1]]))
    assert np.array(first).tolist() == [[True, False]] and np.array(second).tolist() == [[False, True]]
