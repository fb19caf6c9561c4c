"""ERNIE computes what Hugging Face's does, with the task of each token and without, and travels both ways."""

import json

import numpy as np
import pytest
from parity import assert_close, assert_gradient_norms, gradients_of, read_case
from safetensors.numpy import load_file, save_file

from xmodels.conversion import convert
from xmodels.conversion.tables.ernie import HUGGING_FACE
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.objectives.masked_lm import MaskedLM

CASE = read_case("ernie/mlm_task_ids")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The weights of the case as Hugging Face writes them."""
    path = tmp_path_factory.mktemp("theirs")
    numbers = CASE.numbers
    copies = {copy: CASE.weights[original] for copy, original in HUGGING_FACE.tied.items()}
    save_file(CASE.weights | copies, path / "model.safetensors")
    settings = {
        "model_type": "ernie", "vocab_size": numbers["vocabulary_size"], "hidden_size": numbers["hidden_dim"],
        "num_hidden_layers": numbers["num_layers"], "num_attention_heads": numbers["num_heads"],
        "intermediate_size": numbers["intermediate_dim"], "max_position_embeddings": numbers["max_sequence_length"],
        "type_vocab_size": numbers["num_segments"], "hidden_act": numbers["activation"],
        "layer_norm_eps": numbers["layer_norm_epsilon"], "use_task_id": numbers["use_task_embedding"],
        "task_type_vocab_size": numbers["num_tasks"],
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def loaded(theirs):
    return convert.load(f"hf:{theirs}")


@pytest.fixture(scope="module")
def network(loaded):
    backbone = folder.model_class("ernie")(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, "the case")
    return backbone


FEATURES = {name: CASE.inputs[name] for name in ("token_ids", "segment_ids", "task_ids")}
FEATURES["padding_mask"] = CASE.inputs["padding_mask"].astype(bool)
REAL = FEATURES["padding_mask"]


@pytest.fixture(scope="module")
def batch():
    """The hidden places of the case in slots."""
    hidden = CASE.inputs["mlm_labels"] >= 0
    order = np.argsort(~hidden, axis=1, kind="stable")[:, : hidden.sum(axis=1).max()]
    weights = np.take_along_axis(hidden, order, 1).astype("float32")
    labels = np.where(weights > 0, np.take_along_axis(CASE.inputs["mlm_labels"], order, 1), 0).astype("int32")
    return {**FEATURES, "mask_positions": order.astype("int32"), "label_weights": weights, "labels": labels}


@pytest.fixture(scope="module")
def objective(network, loaded, batch):
    made = MaskedLM(loaded.config)
    made.logits(network(FEATURES), batch, network)  # creates the weights
    folder.assign(made.prefix, made, loaded.values, "the case")
    return made


def test_states_and_attention_are_those_of_the_original(network):
    for index, states in enumerate(network.hidden_states(FEATURES)):
        assert_close(states, CASE.outputs[f"hidden_states/{index}"], f"state {index}", REAL)
    for index, maps in enumerate(network.attention_maps(FEATURES)):
        expected = CASE.outputs[f"attention_probs/{index}"]
        assert_close(maps, expected, f"attention {index}", np.broadcast_to(REAL[:, None, :, None], expected.shape))


@pytest.mark.parametrize("name", ["mlm_logits", "default_task0/mlm_logits"])
def test_logits_are_those_of_the_original_and_without_task_ids_the_task_is_the_first(name, network, objective):
    given = {key: value for key, value in FEATURES.items() if key != "task_ids" or "/" not in name}
    every = np.tile(np.arange(13, dtype="int32"), (3, 1))
    logits = objective.logits(network(given), {**given, "mask_positions": every}, network)
    assert_close(logits, CASE.outputs[name], name, REAL)


def test_loss_and_gradients_are_those_of_the_original(network, objective, batch):
    def loss():
        total, weight = objective.score(network(batch), batch, network)[0]["masked_lm"]
        return total / weight

    table = {ours: theirs for ours, (theirs, _) in HUGGING_FACE.variables.items()}
    names = {ours.format(block=i): theirs.format(block=i) for ours, theirs in table.items() for i in range(2)}
    weights = {f"backbone.{n}": w for n, w in named_weights(network).items() if not n.startswith("pooler")}
    weights |= {f"objective.masked_lm.{n}": w for n, w in named_weights(objective).items()}
    value, found = gradients_of(loss, {names[name]: weight for name, weight in weights.items()})
    assert_close(value, CASE.outputs["loss"], "loss")
    assert_gradient_norms(found, CASE.outputs)


def test_what_is_written_is_what_was_read(theirs, loaded, tmp_path):
    assert loaded.config.num_tasks == 3 and loaded.config.num_roles is None
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    there, back = (load_file(path / "model.safetensors") for path in (theirs, tmp_path / "back"))
    pooler = {name for name in back if "pooler" in name}  # which the case lacks, so it begins at random
    assert set(there) - set(HUGGING_FACE.tied) == set(back) - pooler and len(pooler) == 2
    assert all(np.array_equal(there[name], value) for name, value in back.items() if name not in pooler)
    stored, written = (json.loads((path / "config.json").read_text()) for path in (theirs, tmp_path / "back"))
    assert {key: written[key] for key in stored} == stored and written["architectures"] == ["ErnieForMaskedLM"]
