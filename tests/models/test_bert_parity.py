"""BERT computes what the original code and Hugging Face's compute: states, logits, losses, gradients, sizes."""

import functools
import json
import math
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import save_file

from tests.helpers.parity import assert_close, assert_gradient_norms, assert_outputs, gradients_of, read_case
from xmodels.conversion import convert
from xmodels.conversion.tables.bert import SETTINGS, TABLE
from xmodels.conversion.tensors import rows
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.rematerialization import rematerialized
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.tasks.classify.task import Classify

CHINESE, UNCASED, CASED, MULTILINGUAL = 21128, 30522, 28996, 119547


def settings(numbers):
    """The keys that Hugging Face's config.json and Google's bert_config.json share."""
    return {theirs: numbers[ours] for theirs, ours in SETTINGS.items() if ours in numbers} | {
        "hidden_act": numbers["activation"]
    }


def write_hugging_face(path, case, heads):
    """A folder as `transformers` writes it, with `heads`: the prefix in weights.npz of the head to keep."""
    path.mkdir()
    kept = [name for name in case.weights if "/" not in name or name.startswith(heads)]
    tensors = {name.removeprefix(heads): case.weights[name] for name in kept}
    save_file(tensors, path / "model.safetensors")
    epsilon = {"layer_norm_eps": case.numbers["layer_norm_epsilon"]}
    (path / "config.json").write_text(json.dumps(settings(case.numbers) | epsilon | {"model_type": "bert"}))
    return f"hf:{path}"


def write_tensorflow1(path, case):
    """A checkpoint as Google's training leaves it, with the slots of its optimizer."""
    path.mkdir()
    tensors = dict(case.weights)
    for name in case.weights:
        tensors[f"{name}/adam_m"] = tensors[f"{name}/adam_v"] = np.zeros(2, "float32")
    tensors["global_step"] = np.array(7, "int64")
    tf.raw_ops.SaveV2(
        prefix=str(path / "bert_model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    ignored = {"directionality": "bidi", "pooler_type": "first_token_transform"}
    (path / "bert_config.json").write_text(json.dumps(settings(case.numbers) | ignored))
    return f"tf1:{path}"


def load(source, path, make_objective):
    """The network and an objective with the weights of `source`, by way of a model folder of ours."""
    convert.save(convert.load(source), str(path))
    backbone, values = folder.read_model(str(path))
    objective = make_objective(backbone.config)
    example = {
        "token_ids": [[1, 1]],
        "segment_ids": [[0, 0]],
        "padding_mask": [[True, True]],
        "mask_positions": [[0]],
        "labels": [0] if isinstance(objective, Classify) else [[0]],
        "label_weights": [[1.0]],
        "next_sentence_labels": [0],
        "example_weights": [1.0],
    }
    example = {name: ops.convert_to_tensor(value) for name, value in example.items()}
    objective.score(objective.forward(backbone, example), example, backbone)  # creates the weights
    folder.assign(objective.prefix, objective, values, source)
    return backbone, objective


def pretraining(config):
    return together(MaskedLM(config), NextSentence(config))


def batch_of(inputs, **more):
    batch = {name: ops.convert_to_tensor(inputs[name]) for name in ("token_ids", "segment_ids")}
    batch["padding_mask"] = ops.cast(inputs["padding_mask"], "bool")
    batch["example_weights"] = ops.ones(len(inputs["token_ids"]))
    return batch | {name: ops.convert_to_tensor(value) for name, value in more.items()}


def assert_gradients(backbone, objective, loss, outputs, variables):
    """Compares the gradient norm of every stored parameter; `variables` are the rows of a conversion table."""
    weights = {f"backbone.{name}": weight for name, weight in named_weights(backbone).items()}
    weights |= {f"{objective.prefix}.{name}": weight for name, weight in named_weights(objective).items()}
    ours = {theirs: name for name, _, theirs, _ in rows(variables, TABLE, backbone.config)}
    found = gradients_of(loss, weights)[1]
    named = {theirs: ours[theirs] for theirs in outputs["grad_norm_names"]}
    assert set(named.values()) == set(weights)
    assert_gradient_norms({theirs: found[name] for theirs, name in named.items()}, outputs)


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory):
    case = read_case("bert/pretraining")
    path = tmp_path_factory.mktemp("hugging_face")
    backbone, objective = load(write_hugging_face(path / "theirs", case, ""), path / "ours", pretraining)
    labels = case.inputs["mlm_labels"]
    batch = batch_of(
        case.inputs,
        mask_positions=np.broadcast_to(np.arange(labels.shape[1]), labels.shape),
        labels=np.maximum(labels, 0),
        label_weights=(labels != -100).astype("float32"),
        next_sentence_labels=case.inputs["nsp_labels"],
    )
    return types.SimpleNamespace(case=case, backbone=backbone, objective=objective, batch=batch)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    case = read_case("bert/original_pretraining")
    path = tmp_path_factory.mktemp("original")
    backbone, objective = load(write_tensorflow1(path / "theirs", case), path / "ours", pretraining)
    batch = batch_of(
        case.inputs,
        mask_positions=case.inputs["masked_positions"],
        labels=case.inputs["masked_ids"],
        label_weights=case.inputs["masked_weights"],
        next_sentence_labels=case.inputs["nsp_labels"][:, 0],
    )
    return types.SimpleNamespace(case=case, backbone=backbone, objective=objective, batch=batch)


def test_states_and_attention_are_those_of_hugging_face(hugging_face):
    outputs, backbone, batch = hugging_face.case.outputs, hugging_face.backbone, hugging_face.batch
    assert backbone.config.activation == "gelu"
    found = {f"hidden_states/{i}": state for i, state in enumerate(backbone.hidden_states(batch))}
    found |= {f"attention_probs/{i}": attention for i, attention in enumerate(backbone.attention_maps(batch))}
    assert_outputs(found, outputs)
    found = backbone(batch)
    assert_outputs({"hidden_states/3": found["sequence_output"], "pooled_output": found["pooled_output"]}, outputs)


def test_the_summary_is_that_of_the_whole_network(hugging_face):
    """Of the last block it computes the first token alone; dropout is off, so gradients are equal too."""
    backbone, batch = hugging_face.backbone, hugging_face.batch
    found = []
    for call in (backbone, backbone.summarize):
        with tf.GradientTape() as tape:
            pooled = call(batch, training=False)["pooled_output"]
            loss = tf.reduce_sum(pooled * tf.reshape(tf.range(tf.size(pooled), dtype="float32"), pooled.shape))
        gradients = tape.gradient(loss, [v.value for v in backbone.trainable_variables])
        found.append([pooled, *map(tf.convert_to_tensor, gradients)])
    largest = max(float(tf.reduce_max(tf.abs(value))) for value in found[0])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6 * largest)


def test_the_summary_is_recomputed_with_the_same_masks(hugging_face):
    """Also what the first token looks at, which is no first argument of the last block, gets its gradient."""
    backbone, found = hugging_face.backbone, []
    for again in (False, True):
        with tf.GradientTape() as tape, dropout_seed(np.array([1, 2])), rematerialized(again):
            loss = tf.reduce_sum(backbone.summarize(hugging_face.batch, training=True)["pooled_output"] ** 3)
        found.append(tape.gradient(loss, backbone.embedding.position.embeddings.value))
    whole, recomputed = map(tf.convert_to_tensor, found)
    assert float(tf.reduce_max(tf.abs(whole))) > 1e-3
    np.testing.assert_allclose(recomputed, whole, rtol=1e-4, atol=1e-6)


def test_logits_and_losses_are_those_of_hugging_face(hugging_face):
    outputs, backbone, batch = hugging_face.case.outputs, hugging_face.backbone, hugging_face.batch
    objective = hugging_face.objective
    found = backbone(batch)
    hidden, token_embedding = found["sequence_output"], backbone.embedding.token
    logits = objective.masked_lm.head(hidden, batch["mask_positions"], token_embedding=token_embedding)
    found = {"mlm_logits": logits, "nsp_logits": objective.next_sentence.head(found["pooled_output"])}
    losses, _ = objective.score(backbone(batch), batch, backbone)
    means = {name: total / weight for name, (total, weight) in losses.items()}
    found |= {"mlm_loss": means["masked_lm"], "nsp_loss": means["next_sentence"], "loss": sum(means.values())}
    assert_outputs(found, outputs)


def test_gradients_are_those_of_hugging_face(hugging_face):
    backbone, objective, batch = hugging_face.backbone, hugging_face.objective, hugging_face.batch

    def loss():
        losses, _ = objective.score(backbone(batch), batch, backbone)
        return sum(total / weight for total, weight in losses.values())

    assert_gradients(backbone, objective, loss, hugging_face.case.outputs, TABLE.variables(TABLE.hugging_face))


def test_states_and_log_probabilities_are_those_of_the_original_code(original):
    outputs, backbone, objective, batch = original.case.outputs, original.backbone, original.objective, original.batch
    assert backbone.config.activation == "gelu_tanh"
    states = backbone.hidden_states(batch)
    assert_outputs({f"layer_output/{i}": state for i, state in enumerate(states[1:])}, outputs)
    found = backbone(batch)
    assert_outputs({"embedding_output": states[0], "pooled_output": found["pooled_output"]}, outputs)
    hidden, token_embedding = found["sequence_output"], backbone.embedding.token
    logits = objective.masked_lm.head(hidden, batch["mask_positions"], token_embedding=token_embedding)  # (B, P, V)
    log_probabilities = ops.log_softmax(ops.reshape(logits, (-1, logits.shape[-1])))
    labels = ops.reshape(batch["labels"], (-1, 1))
    losses = -ops.take_along_axis(log_probabilities, labels, axis=1)[:, 0]
    next_sentence = ops.log_softmax(objective.next_sentence.head(found["pooled_output"]))
    found = {"mlm_log_probs": log_probabilities, "mlm_per_position_loss": losses, "nsp_log_probs": next_sentence}
    assert_outputs(found, outputs)


def original_losses(original):
    """The original divides by the sum of the weights plus 1e-5."""
    losses, _ = original.objective.score(original.backbone(original.batch), original.batch, original.backbone)
    (masked_lm, weight), (next_sentence, rows) = losses["masked_lm"], losses["next_sentence"]
    return masked_lm / (weight + 1e-5), next_sentence / rows


def test_losses_are_those_of_the_original_code(original):
    masked_lm, next_sentence = original_losses(original)
    found = {"mlm_loss": masked_lm, "nsp_loss": next_sentence, "loss": masked_lm + next_sentence}
    assert_outputs(found, original.case.outputs)


def test_gradients_are_those_of_the_original_code(original):
    variables = TABLE.variables(TABLE.tensorflow1)
    assert_gradients(
        original.backbone, original.objective, lambda: sum(original_losses(original)), original.case.outputs, variables
    )


def test_classification_is_that_of_hugging_face(tmp_path):
    case = read_case("bert/heads")
    source = write_hugging_face(tmp_path / "theirs", case, "class/")
    backbone, task = load(source, tmp_path / "ours", functools.partial(Classify, labels=("a", "b", "c")))
    batch = batch_of(case.inputs, labels=case.inputs["class_labels"])
    found = task.forward(backbone, batch)
    (total, weight) = task.score(found, batch, backbone)[0]["classify"]
    assert_outputs({"class/logits": found["logits"], "class/loss": total / weight}, case.outputs)


def test_the_two_forms_of_gelu_differ(hugging_face, tmp_path):
    erf = convert.load(write_hugging_face(tmp_path / "erf", hugging_face.case, ""))
    case = read_case("bert/pretraining")
    case.numbers["activation"] = "gelu_new"
    tanh = convert.load(write_hugging_face(tmp_path / "tanh", case, ""))
    assert tanh.config.activation == "gelu_tanh"
    difference = np.max(np.abs(convert.outputs(erf)["sequence_output"] - convert.outputs(tanh)["sequence_output"]))
    assert 1e-5 < difference < 1e-2


def test_what_stands_in_the_padding_changes_nothing(hugging_face):
    batch, real = hugging_face.batch, ops.convert_to_numpy(hugging_face.batch["padding_mask"])
    assert not real.all()
    token_ids = ops.convert_to_numpy(batch["token_ids"])
    scrambled = np.where(real, token_ids, (token_ids + 17) % 120)
    before = hugging_face.backbone(batch)
    other_segments = np.where(real, batch["segment_ids"], 1 - batch["segment_ids"])
    after = hugging_face.backbone(batch | {"token_ids": scrambled, "segment_ids": other_segments})
    difference = np.abs(ops.convert_to_numpy(before["sequence_output"] - after["sequence_output"]))
    assert np.max(difference[real]) < 1e-5
    assert np.max(difference[~real]) > 1e-3
    assert_close(before["pooled_output"], ops.convert_to_numpy(after["pooled_output"]), atol=1e-5)


def test_a_token_changes_the_states_on_both_sides(hugging_face):
    batch = hugging_face.batch
    token_ids = ops.convert_to_numpy(batch["token_ids"]).copy()
    token_ids[:, 4] = (token_ids[:, 4] + 1) % 120
    before = hugging_face.backbone(batch)["sequence_output"]
    after = hugging_face.backbone(batch | {"token_ids": token_ids})["sequence_output"]
    difference = np.max(np.abs(ops.convert_to_numpy(before - after)), axis=-1)  # (B, L)
    assert np.all(difference[0] > 1e-4)


def test_too_long_an_input_is_refused(hugging_face):
    ids = np.zeros((1, 25), "int32")
    with pytest.raises(ValueError, match="length=25, max_sequence_length=24"):
        hugging_face.backbone({"token_ids": ids, "segment_ids": ids, "padding_mask": ids == 0})


RBT3 = SIZES["base"] | {"num_layers": 3}
RBTL3 = SIZES["large"] | {"num_layers": 3}


def size_of(layer):
    return sum(math.prod(weight.shape) for weight in layer.weights)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("size", "vocabulary_size", "encoder", "with_heads"),
    [
        (SIZES["tiny"], UNCASED, 4_385_920, 4_433_468),
        (SIZES["mini"], UNCASED, 11_170_560, 11_267_900),
        (SIZES["small"], UNCASED, 28_763_648, 29_058_876),
        (SIZES["medium"], UNCASED, 41_373_184, 41_668_412),
        (SIZES["base"], UNCASED, 109_482_240, 110_106_428),
        (SIZES["base"], CASED, 108_310_272, 108_932_934),
        pytest.param(SIZES["base"], CHINESE, 102_267_648, 102_882_442, marks=pytest.mark.long),  # also BERT-wwm
        pytest.param(SIZES["base"], MULTILINGUAL, 177_853_440, 178_566_653, marks=pytest.mark.long),
        (SIZES["large"], UNCASED, 335_141_888, 336_226_108),
        pytest.param(SIZES["large"], CHINESE, 325_522_432, None, marks=pytest.mark.long),  # RoBERTa-wwm-ext-large
        (RBT3, CHINESE, 38_476_800, None),
        (RBTL3, CHINESE, 61_001_728, None),
    ],
)
def test_published_sizes(size, vocabulary_size, encoder, with_heads, monkeypatch):
    def zeros(self, shape, dtype=None, **kwargs):
        return ops.zeros(shape, dtype)

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", zeros)  # quicker to trace
    config = BertConfig(vocabulary_size=vocabulary_size, **size)
    ids, positions = np.zeros((1, 2), "int32"), np.zeros((1, 1), "int32")
    with tf.Graph().as_default(), keras.StatelessScope(initialize_variables=False):  # allocates no weights
        network, masked_lm, next_sentence = Bert(config), MaskedLM(config), NextSentence(config)
        found = network.call({"token_ids": ids, "segment_ids": ids, "padding_mask": ids == 0})
        assert size_of(network) == encoder
        if with_heads:
            masked_lm.head(found["sequence_output"], positions, token_embedding=network.embedding.token)
            next_sentence.head(found["pooled_output"])
            assert encoder + size_of(masked_lm) + size_of(next_sentence) == with_heads
    keras.backend.clear_session()  # forgets the weights that were never made
