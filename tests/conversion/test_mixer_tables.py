"""Longformer and BigBird of Hugging Face, in and out: RoBERTa and BERT with other mixers."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.parity import assert_close, read_case
from xmodels import systems
from xmodels.conversion import convert, formats
from xmodels.conversion.tensors import rows
from xmodels.jobs.pretrain.network import _config_of_file
from xmodels.layers import mixers
from xmodels.models import folder

CASES = {"longformer": "longformer/mlm_local_global", "bigbird": "bigbird/mlm_block_sparse"}


def settings_of(name):
    """What `transformers` writes into config.json."""
    numbers = read_case(CASES[name]).numbers
    found = {
        "vocab_size": numbers["vocabulary_size"], "hidden_size": numbers["hidden_dim"], "num_hidden_layers": numbers["num_layers"],
        "num_attention_heads": numbers["num_heads"], "intermediate_size": numbers["intermediate_dim"],
        "hidden_act": numbers["activation"], "layer_norm_eps": numbers["layer_norm_epsilon"],
    }  # fmt: skip
    if name == "longformer":
        own = {
            "attention_window": numbers["attention_window"],
            "max_position_embeddings": numbers["position_table_rows"],
        }
        return found | own | {"model_type": "longformer", "pad_token_id": 1, "type_vocab_size": 1}
    own = {"block_size": numbers["block_size"], "num_random_blocks": numbers["num_random_blocks"]}
    sizes = {"max_position_embeddings": numbers["max_sequence_length"], "type_vocab_size": numbers["num_segments"]}
    return found | own | sizes | {"model_type": "big_bird", "attention_type": "block_sparse"}


def write_hugging_face(path, name, **changes):
    path.mkdir()
    save_file(read_case(CASES[name]).weights, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(settings_of(name) | changes))
    return f"hf:{path}"


@pytest.mark.parametrize("name", CASES)
def test_folders_come_back_as_they_were(tmp_path, name):
    source = write_hugging_face(tmp_path / "theirs", name)
    loaded = convert.load(source)
    assert loaded.config.mixer == name
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    before, after = (load_file(tmp_path / part / "model.safetensors") for part in ("theirs", "back"))
    assert set(before) == set(after)
    for tensor, value in before.items():
        np.testing.assert_array_equal(value, after[tensor], err_msg=tensor)
    assert settings_of(name).items() <= json.loads((tmp_path / "back" / "config.json").read_text()).items()
    assert max(convert.verify(source, str(tmp_path / "ours")).values()) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_converted_networks_compute_what_the_originals_do(tmp_path, name):
    loaded, case = convert.load(write_hugging_face(tmp_path / "theirs", name)), read_case(CASES[name])
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, name)
    batch = {key: case.inputs[key] for key in ("token_ids", "segment_ids") if key in case.inputs}
    batch["padding_mask"] = real = case.inputs["padding_mask"] > 0
    if name == "longformer":
        batch["global_ids"] = case.inputs["global_mask"]
    prefix = "" if name == "longformer" else "eval/"
    for index, states in enumerate(backbone.hidden_states(batch)):
        assert_close(states, case.outputs[f"{prefix}hidden_states/{index}"], "states", real)
    head = next(head for head in formats.table_of(loaded.model, loaded.config).objectives if head.label == "masked_lm")
    length = real.shape[1]
    batch["mask_positions"] = np.tile(np.arange(length, dtype="int32"), (2, 1))
    logits = convert._logits(head, backbone(batch), batch, backbone, loaded)
    assert_close(logits, case.outputs[f"{prefix}mlm_logits"], "mlm_logits", real)


def small(name, task=None, **numbers):
    """A small network of random weights, with the head of a task or of masked LM."""
    module = next(module for module in formats._of_mixers() if name == module.MIXER)
    table, drawn = module.TABLE, np.random.default_rng(2)
    sizes = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 24, "max_sequence_length": 40}
    config = table.config(vocabulary_size=30, **sizes, mixer=name, mixer_numbers=numbers, dropout=0.1)
    label = task or "masked_lm"
    lengths = table.lengths(config) | {"C": {"answer_span": 2, "choose": 1}.get(task, 3)}
    values = {
        ours: drawn.normal(0, 0.3, [int(np.prod([lengths[a] for a in axis])) for axis in axes.split()]).astype(
            "float32"
        )
        for ours, axes, _, _ in rows(table.variables(table.hugging_face), table, config)
        if ours.startswith(("backbone.", f"objective.{label}."))
    }
    return convert.Checkpoint(module.MODEL, config, values, None, frozenset({label}))


NUMBERS = {
    "longformer": {"window": 4, "num_global": 5},
    "bigbird": {"block_size": 4, "num_random_blocks": 1, "plan": "first"},
}
TASKS = [
    ("longformer", None, "LongformerForMaskedLM"), ("longformer", "classify", "LongformerForSequenceClassification"),
    ("longformer", "tag", "LongformerForTokenClassification"), ("longformer", "answer_span", "LongformerForQuestionAnswering"),
    ("longformer", "choose", "LongformerForMultipleChoice"), ("bigbird", None, "BigBirdForMaskedLM"),
    ("bigbird", "tag", "BigBirdForTokenClassification"), ("bigbird", "choose", "BigBirdForMultipleChoice"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "task", "architecture"), TASKS)
def test_heads_of_tasks_come_back_as_they_were(tmp_path, name, task, architecture):
    ours = small(name, task, **NUMBERS[name])
    convert.save(ours, f"hf:{tmp_path / 'theirs'}")
    assert json.loads((tmp_path / "theirs/config.json").read_text())["architectures"] == [architecture]
    back = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert back.heads == ours.heads and set(back.values) == set(ours.values)
    for weight, value in ours.values.items():
        np.testing.assert_array_equal(back.values[weight], value)
    numbers = NUMBERS[name] | ({"num_global": 64} if name == "longformer" else {})
    assert back.config.mixer_numbers == mixers.find(name).numbers(**numbers)


def test_windows_of_layers_are_doubled_there(tmp_path):
    ours = small("longformer", windows=(2, 7))
    convert.save(ours, f"hf:{tmp_path / 'theirs'}")
    assert json.loads((tmp_path / "theirs/config.json").read_text())["attention_window"] == [4, 14]
    assert convert.load(f"hf:{tmp_path / 'theirs'}").config == dataclasses.replace(
        ours.config, mixer_numbers={"windows": (2, 7)}
    )


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("longformer", {"attention_window": [8, 5]}, "`mixer.windows` must be a list of whole numbers"),
        ("longformer", {"attention_window": "wide"}, "`mixer.window` must be a whole number"),
        ("bigbird", {"attention_type": "original_full"}, "cannot convert `attention_type` = 'original_full'"),
        ("bigbird", {"rescale_embeddings": True}, "cannot convert `rescale_embeddings` = True"),
        ("bigbird", {"block_size": 0}, "`block_size` must be a whole number from 1"),
    ],
)
def test_what_is_another_network_is_refused(tmp_path, name, changes, message):
    source = write_hugging_face(tmp_path / "theirs", name, **changes)
    with pytest.raises(CheckpointError, match=message):
        convert.load(source)


def test_a_mixer_without_a_table_has_no_folder_there(tmp_path):
    ours = small("longformer")
    other = dataclasses.replace(ours, config=dataclasses.replace(ours.config, mixer="linear"))
    with pytest.raises(CheckpointError, match="cannot say `mixer` = 'linear'"):
        convert.save(other, f"hf:{tmp_path / 'theirs'}")


def test_their_configuration_begins_a_pretraining(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings_of("longformer")))
    options = type("Options", (), {"model_config_file": str(file), "mixer": None})
    config = _config_of_file(options, systems.load("longformer"), 100)
    assert config.mixer == "longformer" and config.mixer_numbers.windows == (4, 2)


@pytest.mark.one_in(2)
@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize(("name", "task", "architecture"), TASKS)
def test_transformers_computes_the_same_from_what_we_write(tmp_path, name, task, architecture):
    import torch
    import transformers

    ours = small(name, task, **NUMBERS[name])
    convert.save(ours, f"hf:{tmp_path / 'theirs'}")
    network, report = getattr(transformers, architecture).from_pretrained(
        str(tmp_path / "theirs"), output_loading_info=True
    )
    # Files of masked LM have no pooler in BigBird's other classes, and classifiers of tokens none.
    assert not [key for key in report["missing_keys"] if "pooler" not in key] and not report["unexpected_keys"]
    backbone = folder.model_class(ours.model)(ours.config).initialize()
    folder.assign("backbone", backbone, ours.values, name)
    drawn = np.random.default_rng(3)
    token_ids, real = drawn.integers(5, 30, size=(2, 40)), np.arange(40) < np.array([[40], [33]])
    token_ids = np.where(real, token_ids, 1 if name == "longformer" else 0)
    marks = np.zeros((2, 40), "int64")
    marks[:, [0, 9]] = 1
    batch = {"token_ids": token_ids, "padding_mask": real, "segment_ids": np.zeros_like(token_ids)}
    theirs = {"input_ids": torch.from_numpy(token_ids), "attention_mask": torch.from_numpy(real.astype("int64"))}
    if name == "longformer":
        batch["global_ids"], theirs["global_attention_mask"] = marks, torch.from_numpy(marks)
    base = network.base_model
    with torch.no_grad():
        found = base.eval()(**theirs).last_hidden_state.numpy()
    states = np.array(backbone(batch)["sequence_output"])
    assert_close(states[real], found[real])
    if task in (None, "tag"):
        head = next(head for head in formats.table_of(ours.model, ours.config).heads if head.label in ours.heads)
        batch["mask_positions"] = np.tile(np.arange(40, dtype="int32"), (2, 1))
        logits = convert._logits(head, backbone(batch), batch, backbone, ours)
        with torch.no_grad():
            assert_close(np.array(logits)[real], network.eval()(**theirs).logits.numpy()[real])


def test_the_tables_are_those_of_mixers_that_there_are():
    for module in formats._of_mixers():
        assert module.MIXER in mixers.names() and formats.has_table(module.MODEL)
        assert pathlib.Path(module.__file__).stem == module.MIXER
