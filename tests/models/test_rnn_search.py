"""Additive attention and the network that translates with it: shares, what is kept of the source, and steps as whole passes."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.additive import AdditiveAttention, bias_of
from xmodels.layers.attention.alignment import SCORES
from xmodels.models.rnn_search import Maxout, RnnSearch, RnnSearchConfig
from xmodels.training.optimizers.optimization import Optimization

RNG = np.random.default_rng(0)
CONFIG = RnnSearchConfig(20, 12, intermediate_dim=7, embedding_dim=5, maxout_dim=4)
SOURCE = np.array([[4, 7, 9, 2, 0, 0], [5, 3, 6, 8, 11, 2]])
REAL = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
TARGET = np.array([[0, 12, 13, 14, 2], [0, 15, 12, 2, 0]])
BATCH = {"token_ids": SOURCE, "padding_mask": REAL, "target_ids": TARGET}


def drawn(layer, scale=0.4):
    for i, variable in enumerate(layer.weights):
        variable.assign(np.random.default_rng(i).normal(0, scale, variable.shape))
    return layer


def network(**numbers):
    return drawn(RnnSearch(dataclasses.replace(CONFIG, **numbers)).initialize())


@pytest.fixture(scope="module")
def search():
    return network()


def attention():
    layer = AdditiveAttention(query_dim=3, key_dim=4, align_dim=5)
    layer.build()
    return drawn(layer)


def test_shares_are_those_of_the_formula_and_stand_on_real_tokens_only():
    layer, s, h = attention(), RNG.normal(size=(2, 3)).astype("float32"), RNG.normal(size=(2, 6, 4)).astype("float32")
    found = np.array(layer(s, layer.project(h), bias_of(REAL)))
    w, u, v = (np.array(weight) for weight in (layer.query.kernel, layer.key.kernel, layer.scale))
    scores = np.exp(np.tanh((s @ w)[:, None] + h @ u) @ v) * REAL
    np.testing.assert_allclose(found, scores / scores.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)
    assert not found[~REAL].any()
    layer.scale.assign(np.zeros(5))
    np.testing.assert_allclose(
        layer(s, layer.project(h), bias_of(REAL)), REAL / REAL.sum(axis=1, keepdims=True), rtol=1e-6
    )


def test_keys_that_are_kept_are_those_that_would_be_computed_again(search):
    past = search.start(BATCH, 5)
    source = np.array(search.encode(BATCH))
    cell = search.steps.cell
    np.testing.assert_array_equal(past["keys"], cell.attention.project(source))
    np.testing.assert_allclose(past["keys"], source @ np.array(cell.attention.key.kernel), atol=1e-5)
    np.testing.assert_allclose(past["past"], np.tanh(source[:, 0, 6:] @ np.array(search.begin.kernel)), atol=1e-6)


def decoder_by_loop(network, batch):
    """Appendix A of the paper, word by word, from the states of the source: outputs, and shares."""
    cell, width = network.steps.cell, network.config.hidden_dim // 2
    h = np.array(network.encode(batch))
    (wz, wr, ww), b = np.split(np.array(network.gates.kernel), 3, axis=1), np.array(network.gates.bias)
    cz, cr, cc = np.split(np.array(cell.context.kernel), 3, axis=1)
    uz, ur = np.split(np.array(cell.gru.recurrent.kernel), 2, axis=1)
    uu, (bz, br, bb) = np.array(cell.gru.recurrent_candidate.kernel), np.split(b, 3)
    wa, ua, v = (np.array(x) for x in (cell.attention.query.kernel, cell.attention.key.kernel, cell.attention.scale))
    s, outputs, shares = np.tanh(h[:, 0, width:] @ np.array(network.begin.kernel)), [], []
    for i in range(batch["target_ids"].shape[1]):
        e = np.array(network.embedding.target.embeddings)[batch["target_ids"][:, i]]
        a = np.exp(np.tanh((s @ wa)[:, None] + h @ ua) @ v) * batch["padding_mask"]
        a = a / a.sum(axis=1, keepdims=True)
        c = np.einsum("bs,bsk->bk", a, h)
        z = 1 / (1 + np.exp(-(e @ wz + s @ uz + c @ cz + bz)))
        r = 1 / (1 + np.exp(-(e @ wr + s @ ur + c @ cr + br)))
        new = (1 - z) * s + z * np.tanh(e @ ww + (r * s) @ uu + c @ cc + bb)
        read = s if network.config.output_state == "previous" else new
        t = np.concatenate([read, e, c], axis=1) @ np.array(network.deep.kernel) + np.array(network.deep.bias)
        outputs.append(np.maximum(t[:, ::2], t[:, 1::2]))
        shares.append(a)
        s = new
    return np.stack(outputs, axis=1), np.stack(shares, axis=1)


@pytest.mark.parametrize("output_state", ["previous", "current"])
def test_the_decoder_is_the_loop_of_the_paper(output_state):
    search = network(output_state=output_state)
    outputs, shares = decoder_by_loop(search, BATCH)
    np.testing.assert_allclose(search(BATCH)["sequence_output"], outputs, atol=1e-5)
    np.testing.assert_allclose(search.alignments(BATCH), shares, atol=1e-5)


@pytest.mark.parametrize(
    "numbers", [{}, {"output_state": "current", "num_layers": 2}, {"score": "location", "num_places": 4}], ids=str
)
@pytest.mark.parametrize("cut", [1, 2])
def test_steps_give_what_a_whole_pass_gives(numbers, cut):
    search = network(**numbers)
    expected = np.array(search(BATCH)["sequence_output"])
    past, found = search.start(BATCH, TARGET.shape[1]), []
    for first in range(0, TARGET.shape[1], cut):
        states, past = search.decode(TARGET[:, first : first + cut], past, first)
        found.append(np.array(states))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)


def test_padding_of_the_source_and_the_future_of_the_target_change_nothing(search):
    expected = np.array(search(BATCH)["sequence_output"])
    wide = {
        "token_ids": np.pad(SOURCE, ((0, 0), (0, 3)), constant_values=9),
        "padding_mask": np.pad(REAL, ((0, 0), (0, 3))),
    }
    np.testing.assert_allclose(search(BATCH | wide)["sequence_output"], expected, atol=1e-5)
    other = TARGET.copy()
    other[:, 3:] = 17
    np.testing.assert_allclose(
        search(BATCH | {"target_ids": other})["sequence_output"][:, :3], expected[:, :3], atol=1e-6
    )
    assert (
        np.abs(np.array(search(BATCH | {"target_ids": other})["sequence_output"])[:, 3:] - expected[:, 3:]).max() > 1e-3
    )


def test_gradients_reach_every_weight_and_compiled_they_are_the_same(search):
    def gradients():
        with tf.GradientTape() as tape:
            loss = ops.sum(search.logits(search(BATCH)["sequence_output"])[..., :3])
        return tape.gradient(loss, [weight.value for weight in search.trainable_variables])

    plain, compiled = gradients(), tf.function(gradients, jit_compile=True)()
    for weight, one, other in zip(search.trainable_variables, plain, compiled, strict=True):
        one, other = np.array(tf.convert_to_tensor(one)), np.array(tf.convert_to_tensor(other))
        assert np.abs(one).max() > 0, weight.path
        np.testing.assert_allclose(one, other, atol=1e-4, err_msg=weight.path)


@pytest.mark.parametrize("score", SCORES[1:])
def test_every_score_translates_and_learns(score):
    search = network(score=score)
    shares = np.array(search.alignments(BATCH))
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0, rtol=1e-5)
    assert not shares[0][:, ~REAL[0]].any()
    with tf.GradientTape() as tape:
        loss = ops.sum(search.logits(search(BATCH)["sequence_output"])[..., :3])
    for weight, found in zip(
        search.trainable_variables, tape.gradient(loss, [w.value for w in search.trainable_variables]), strict=True
    ):
        assert np.abs(np.array(tf.convert_to_tensor(found))).max() > 0, weight.path
    assert RnnSearchConfig.from_json(search.config.to_json()) == search.config


def test_a_configuration_of_additive_attention_is_written_as_before_there_were_others():
    assert not {"score", "num_places"} & CONFIG.to_json().keys()
    with pytest.raises(CheckpointError, match="`score` must be one of additive, content"):
        CONFIG.with_values({"score": "cosine"}, "--set")


def test_maxout_takes_the_larger_of_each_pair():
    np.testing.assert_array_equal(Maxout()(np.array([[1.0, 3.0, -2.0, -5.0]])), [[3.0, -2.0]])


def test_weights_begin_as_in_the_paper():
    search = RnnSearch(RnnSearchConfig(40, 80, intermediate_dim=60)).initialize()
    cell = search.steps.cell
    for part in np.split(np.array(cell.gru.recurrent.kernel), 2, axis=1):
        np.testing.assert_allclose(part @ part.T, np.eye(40), atol=1e-4)
    assert (
        np.std(cell.attention.key.kernel) == pytest.approx(1e-3, rel=0.1) and not np.array(cell.attention.scale).any()
    )
    assert np.std(search.gates.kernel) == pytest.approx(1e-2, rel=0.1) and not np.array(search.gates.bias).any()
    assert search.config.embedding_dim == 80
    with pytest.raises(ValueError, match="`hidden_dim` must be even"):
        RnnSearch(RnnSearchConfig(9, 5, intermediate_dim=3))


def test_adadelta_is_that_of_its_paper():
    """Zeiler, 2012, arXiv 1212.5701, algorithm 1, with rho 0.95 and epsilon 1e-6."""
    optimizer = Optimization(
        optimizer="adadelta", schedule="constant", learning_rate=1.0, num_warmup_steps=0, num_steps=9
    ).make_optimizer()
    weight, gradients = keras.Variable(np.array([2.0, -1.0], "float32")), RNG.normal(size=(4, 2)).astype("float32")
    x, squares, steps = np.array([2.0, -1.0]), np.zeros(2), np.zeros(2)
    for gradient in gradients:
        optimizer.apply([gradient], [weight])
        squares = 0.95 * squares + 0.05 * gradient**2
        step = -np.sqrt(steps + 1e-6) / np.sqrt(squares + 1e-6) * gradient
        steps = 0.95 * steps + 0.05 * step**2
        x = x + step
        np.testing.assert_allclose(weight.numpy(), x, rtol=1e-5)
