"""An encoder-decoder that begins as two language models: what it takes over it computes as they do, and the rest is its own."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from xmodels.models.backbone import named_weights
from xmodels.models.lstm_lm import LstmLM, LstmLMConfig
from xmodels.models.lstm_seq2seq import LstmSeq2Seq, LstmSeq2SeqConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.objectives.side_lm import SourceLM, TargetLM
from xmodels.objectives.untied_lm import UntiedLM

V, D = 20, 6
CONFIG = LstmSeq2SeqConfig(V, D, num_layers=2, dropout=0.0)
SOURCE = np.array([[4, 7, 9, 2, 0, 0], [5, 3, 6, 8, 11, 2]])
REAL = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
TARGET = np.array([[2, 12, 13, 14, 5], [2, 15, 12, 2, 0]])
BATCH = {"token_ids": SOURCE, "padding_mask": REAL, "target_ids": TARGET}
LEARNT = {"labels": np.roll(TARGET, -1, axis=1), "label_weights": np.ones_like(TARGET, "float32")}


def drawn(layer, seed=0):
    for i, variable in enumerate(layer.weights):
        variable.assign(np.random.default_rng([seed, i]).normal(0, 0.5, variable.shape))
    return layer


def network(**numbers):
    return drawn(LstmSeq2Seq(dataclasses.replace(CONFIG, **numbers)).initialize())


def language_model(seed, **numbers):
    config = LstmLMConfig(V, D, num_layers=1, dropout=0.0, **numbers)
    model, objective = drawn(LstmLM(config).initialize(), seed), drawn(UntiedLM(config), seed + 1)
    values = {f"backbone.{name}": np.array(value) for name, value in named_weights(model).items()}
    values |= {f"objective.untied_lm.{name}": np.array(value) for name, value in named_weights(objective).items()}
    return model, objective, values


@pytest.fixture(scope="module")
def begun():
    """A network that began as two language models, these, and the head of the loss of the first."""
    found, source, target, head = network(), language_model(1), language_model(3), SourceLM(CONFIG)
    weights = {f"backbone.{name}": variable for name, variable in named_weights(found).items()}
    weights |= {f"objective.source_lm.{name}": variable for name, variable in named_weights(head).items()}
    for part, (model, _, values) in (("encoder", source), ("decoder", target)):
        taken = LstmSeq2Seq.adopt_part(part, CONFIG, "lstm_lm", model.config, values, f"--init_{part}=run")
        for name, value in taken.values.items():
            weights[name].assign(value)
    return found, source[:2], target[:2], head


def without_higher_layers(found):
    """Returns a copy in which the LSTMs above the first give zeros: of no gates nothing enters the cells."""
    copy = network()
    for name, variable in named_weights(copy).items():
        higher = "coder_layers." in name and "layers.0." not in name
        variable.assign(np.zeros(variable.shape) if higher else np.array(named_weights(found)[name]))
    return copy


def test_without_the_higher_layers_the_decoder_is_the_language_model_of_the_target(begun):
    found, (source, _), (target, objective), _ = begun
    plain = without_higher_layers(found)
    outputs = plain(BATCH)
    expected = objective.logits(target({"token_ids": TARGET})["sequence_output"], target)
    np.testing.assert_array_equal(plain.logits(outputs["sequence_output"]), expected)
    past = plain.start(BATCH, 5)
    for place in range(TARGET.shape[1]):  # token by token
        states, past = plain.decode(TARGET[:, place : place + 1], past, place)
        np.testing.assert_allclose(plain.logits(states)[:, 0], np.array(expected)[:, place], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outputs["encoder_output"], source({"token_ids": SOURCE})["sequence_output"])
    difference = np.array(found.logits(found(BATCH)["sequence_output"])) - np.array(expected)
    assert np.abs(difference).max() > 0.1  # with them it is more than that


def test_the_first_states_are_those_of_the_language_models_and_come_on_top_of_the_last(begun):
    found, (source, first), (target, second), head = begun
    states = found.hidden_states(BATCH)
    np.testing.assert_array_equal(states[1], source({"token_ids": SOURCE})["sequence_output"])
    np.testing.assert_array_equal(found.encode(BATCH), states[-1])
    for part, (model, objective), tokens in (
        ("encoder", (source, first), SOURCE),
        ("decoder", (target, second), TARGET),
    ):
        own = found.language_model(part, tokens)
        np.testing.assert_array_equal(own, model({"token_ids": tokens})["sequence_output"])
        logits = head.logits(own, found) if part == "encoder" else found.logits(own)
        np.testing.assert_array_equal(logits, objective.logits(own, model))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(layer, inputs):
    """An LSTM by loop: (B, N, E) -> (B, N, D)."""
    kernel, bias, recurrent = (
        np.array(x) for x in (layer.gates.kernel, layer.gates.bias, layer.steps.cell.recurrent.kernel)
    )
    h = c = np.zeros((len(inputs), recurrent.shape[0]))
    found = []
    for x in np.moveaxis(inputs, 1, 0):
        i, f, g, o = np.split(x @ kernel + bias + h @ recurrent, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack(found, axis=1)


def test_the_network_is_the_loop_of_its_equations_with_one_set_of_weights_for_both_contexts():
    found = network()
    words = np.array(found.embedding.embeddings)[SOURCE]
    first = lstm(found.encoder_layers[0], words)
    source = first + lstm(found.encoder_layers[2], lstm(found.encoder_layers[1], first))
    h = lstm(found.decoder_layers[0], np.array(found.target_embedding.embeddings)[TARGET])
    shares = np.exp(np.einsum("btd,kd,bsk->bts", h, np.array(found.attention.matrix), source)) * REAL[:, None]
    shares = shares / shares.sum(axis=-1, keepdims=True)
    contexts = [shares @ first, shares @ source]
    top = lstm(found.decoder_layers[1], np.concatenate([h, *contexts], axis=-1))
    top = lstm(found.decoder_layers[2], np.concatenate([top, *contexts], axis=-1))
    outputs = found(BATCH)
    np.testing.assert_allclose(outputs["encoder_output"], source, atol=1e-5)
    np.testing.assert_allclose(found.alignments(BATCH), shares, atol=1e-5)
    np.testing.assert_allclose(outputs["sequence_output"], h + top, atol=1e-5)


@pytest.mark.parametrize("numbers", [{}, {"score": "additive", "num_layers": 1, "align_dim": 3}], ids=str)
@pytest.mark.parametrize("cut", [1, 2])
def test_steps_give_what_a_whole_pass_gives(numbers, cut):
    found = network(**numbers)
    expected = np.array(found(BATCH)["sequence_output"])
    past, states = found.start(BATCH, TARGET.shape[1]), []
    for first in range(0, TARGET.shape[1], cut):
        outputs, past = found.decode(TARGET[:, first : first + cut], past, first)
        states.append(np.array(outputs))
    np.testing.assert_allclose(np.concatenate(states, axis=1), expected, atol=1e-5)


def test_padding_of_the_source_and_the_future_of_the_target_change_nothing():
    found = network()
    expected = np.array(found(BATCH)["sequence_output"])
    wide = {
        "token_ids": np.pad(SOURCE, ((0, 0), (0, 3)), constant_values=9),
        "padding_mask": np.pad(REAL, ((0, 0), (0, 3))),
    }
    np.testing.assert_allclose(found(BATCH | wide)["sequence_output"], expected, atol=1e-5)
    other = TARGET.copy()
    other[:, 3:] = 17
    np.testing.assert_allclose(
        found(BATCH | {"target_ids": other})["sequence_output"][:, :3], expected[:, :3], atol=1e-6
    )
    assert (
        np.abs(np.array(found(BATCH | {"target_ids": other})["sequence_output"])[:, 3:] - expected[:, 3:]).max() > 1e-3
    )


def loss_and_gradients(found, objective, batch):
    variables = [*found.trainable_variables, *objective.trainable_variables]
    with tf.GradientTape() as tape:
        _, losses, _ = objective.run(found, batch, training=True)
        (total,) = [total / count for total, count in losses.values()]
    gradients = tape.gradient(total, [variable.value for variable in variables])
    names = {id(v): name for name, v in named_weights(found).items()} | {id(v): "head" for v in objective.weights}
    sizes = {}
    for variable, gradient in zip(variables, gradients, strict=True):
        size = 0.0 if gradient is None else float(np.abs(np.array(tf.convert_to_tensor(gradient))).max())
        sizes[names[id(variable)]] = max(size, sizes.get(names[id(variable)], 0.0))
    return float(total), sizes


def test_losses_of_the_language_models_reach_what_they_share_and_nothing_else(begun):
    found, *_, head = begun
    text = {"token_ids": TARGET, "padding_mask": np.ones_like(TARGET, bool), **LEARNT}
    lstm = {"gates.kernel", "gates.bias", "steps.cell.recurrent.kernel"}
    shared = {
        "encoder": {"embedding.embeddings", "head", *(f"encoder_layers.0.{name}" for name in lstm)},
        "decoder": {
            "target_embedding.embeddings", "output_words.kernel", "output_words.bias",
            *(f"decoder_layers.0.{name}" for name in lstm),
        },
    }  # fmt: skip
    for objective in (head, TargetLM()):
        _, sizes = loss_and_gradients(found, objective, text)
        assert {name for name, size in sizes.items() if size} == shared[objective.part]
    _, sizes = loss_and_gradients(found, Seq2Seq(0.0), BATCH | LEARNT)
    assert {name for name, size in sizes.items() if size} == set(named_weights(found))  # the translation reaches all


def test_the_weight_multiplies_the_loss_and_zero_leaves_that_of_translation(begun):
    found, *_ = begun
    text = {"token_ids": TARGET, "padding_mask": np.ones_like(TARGET, bool), **LEARNT}
    alone, expected = loss_and_gradients(found, Seq2Seq(0.0), BATCH | LEARNT)
    one, ones = loss_and_gradients(found, TargetLM(), text)
    third, thirds = loss_and_gradients(found, TargetLM(1 / 3), text)
    assert third == pytest.approx(one / 3) and thirds["output_words.bias"] == pytest.approx(
        ones["output_words.bias"] / 3
    )
    for objective in (SourceLM(CONFIG, 0.0), TargetLM(0.0)):
        nothing, sizes = loss_and_gradients(found, objective, text)
        assert alone + nothing == alone and not any(sizes.values())
        (metric,) = [
            v for n, v in objective.score(objective.forward(found, text), text, found)[1].items() if "log" in n
        ]
        assert float(metric[0]) > 0  # what it knows is still measured
    assert max(expected.values()) > 0


def test_a_language_model_that_cannot_be_taken_over_is_named():
    _, _, values = language_model(1)
    deep = LstmLMConfig(V, D, num_layers=2)
    with pytest.raises(CheckpointError, match="--init_encoder=run: a language model of 2 LSTMs; .*--set=num_layers=1"):
        LstmSeq2Seq.adopt_part("encoder", CONFIG, "lstm_lm", deep, values, "--init_encoder=run")
    headless = {name: value for name, value in values.items() if name.startswith("backbone.")}
    with pytest.raises(CheckpointError, match="--init_decoder=run: holds no softmax"):
        LstmSeq2Seq.adopt_part("decoder", CONFIG, "lstm_lm", LstmLMConfig(V, D, 1), headless, "--init_decoder=run")
