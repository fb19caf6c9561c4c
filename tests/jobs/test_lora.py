"""Fine-tuning by low-rank adapters: what learns, what states hold, and what is handed over."""

import json
import pathlib
import re

import keras
import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.models.adapters import adapter_weights, add_adapters, merged_weights
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import read_weights, write_model
from xmodels.runs.fine_tuned import load_predictor
from xmodels.training import loop
from xmodels.training.loop import Interrupted
from xmodels.training.states import checkpoints

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
SMALL = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}


@pytest.fixture(scope="module")
def flags(tmp_path_factory, zh_vocabulary):
    """The flags of a fine-tuning of six steps, without its folder."""
    tokenizer, folder = open_tokenizer(str(zh_vocabulary)), tmp_path_factory.mktemp("lora")
    (folder / "bert").mkdir()
    keras.utils.set_random_seed(0)
    backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL, initializer_stddev=0.2)).initialize()
    write_model(str(folder / "bert"), backbone, None, tokenizer.files(), tokenizer.describe(), "bert")
    for part, count in (("train", 49), ("dev", 17)):
        (folder / f"{part}.tsv").write_text("".join((SAMPLES / f"{part}.tsv").read_text().splitlines(True)[:count]))
    return {
        "task": "classify", "init_checkpoint": folder / "bert", "train_file": folder / "train.tsv", "train_batch_size": 16,
        "max_seq_length": 16, "num_train_epochs": 2, "jit_compile": "false", "lora_rank": 2, "save_checkpoints_steps": 4,
        "learning_rate": 0.05, "eval_file": folder / "dev.tsv", "test_file": folder / "dev.tsv",
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(flags, tmp_path_factory):
    """The run of these flags."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert invoke("finetune", model_dir=folder, **flags) == 0
    return folder


def test_the_network_handed_over_differs_in_the_adapted_kernels_alone_and_by_a_low_rank(flags, run):
    before = read_weights(str(flags["init_checkpoint"] / "weights.safetensors"))
    after = read_weights(str(run / "backbone/weights.safetensors"))
    assert set(before) == {name for name in after if name.startswith("backbone.")}
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {f"backbone.blocks.{i}.mixer.{layer}.kernel" for i in range(2) for layer in ("query", "value")}
    for name in changed:
        difference = (after[name] - before[name]).reshape(-1, after[name].shape[-1])
        values = np.linalg.svd(difference, compute_uv=False)
        assert values[0] > 1e-3 and values[2:].max(initial=0.0) < 1e-5 * values[0]


def test_states_hold_adapters_and_the_head_alone(run):
    (*_, last) = sorted((run / "checkpoints").iterdir())
    held = read_weights(str(last / "weights.safetensors"))
    assert {name.rpartition(".")[2] for name in held if name.startswith("backbone.")} == {
        "lora_kernel_a",
        "lora_kernel_b",
    }
    assert any(name.startswith("objective.classify.head") for name in held)


def test_the_best_epoch_is_handed_over_and_scored(run):
    scores = json.loads((run / "results.json").read_text())["results"]
    assert scores["test loss"] == pytest.approx(scores["evaluation loss"], rel=1e-5), (
        "of the weights that are handed over"
    )


@pytest.mark.long
def test_what_is_handed_over_answers_and_is_fine_tuned_as_every_network(flags, run, tmp_path, capsys):
    assert len(load_predictor(str(run)).predict([("今天的比赛",), ("好吃",)])) == 2
    again = {**flags, "init_checkpoint": run / "backbone", "num_train_epochs": 0.4}
    assert invoke("finetune", model_dir=tmp_path / "next", **again) == 0
    assert "LoRA: 4 layers have adapters of rank 2, 320 weights beside" in capsys.readouterr().out


@pytest.mark.long
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(flags, run, tmp_path, monkeypatch):
    folder, original = tmp_path / "run", checkpoints.save

    def save_once(*arguments, **named):
        original(*arguments, **named)
        raise Interrupted(15, "that of the last step")

    monkeypatch.setattr(loop.checkpoints, "save", save_once)
    assert invoke("finetune", model_dir=folder, **flags) == 128 + 15
    monkeypatch.setattr(loop.checkpoints, "save", original)
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step_00000004"]
    assert invoke("finetune", model_dir=folder, **flags) == 0
    ours, theirs = (read_weights(str(each / "backbone/weights.safetensors")) for each in (folder, run))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_another_network_below_the_adapters_is_refused(flags, run, tmp_path, zh_vocabulary, capsys):
    tokenizer = open_tokenizer(str(zh_vocabulary))
    (tmp_path / "other").mkdir()
    keras.utils.set_random_seed(5)
    backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL)).initialize()
    write_model(str(tmp_path / "other"), backbone, None, tokenizer.files(), tokenizer.describe(), "bert")
    assert invoke("finetune", model_dir=run, **{**flags, "init_checkpoint": tmp_path / "other"}) != 0
    assert "another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"freeze_backbone": "true"}, "--freeze_backbone does not go with them"),
        ({"random_init": "true"}, "has random weights"),
        ({"layerwise_lr_decay": 0.9}, "--layerwise_lr_decay does not go"),
        ({"lora_layers": "query,values"}, "no layer named values that could have an adapter. It has .*query"),
        ({"lora_layers": ","}, "--lora_layers: names no layer"),
        ({"lora_layers": "mixer_norm"}, "mixer_norm"),
    ],
)
def test_flags_that_contradict_adapters_are_refused(flags, tmp_path, capsys, more, message):
    assert invoke("finetune", model_dir=tmp_path / "run", **{**flags, **more}) == UsageError.exit_code
    assert re.search(message, capsys.readouterr().err)


def test_states_of_adapters_are_not_averaged(run, tmp_path, capsys):
    assert (
        invoke("average_checkpoints", model_dir=run, last=1, output_dir=tmp_path / "mean") == CheckpointError.exit_code
    )
    assert "holds adapters (--lora_rank)" in capsys.readouterr().err


def test_a_network_with_adapters_is_as_before_until_they_learn_and_its_merged_weights_are_it():
    keras.utils.set_random_seed(0)
    backbone = Bert(BertConfig(50, **SMALL)).initialize()
    batch = {
        "token_ids": np.array([[2, 7, 9, 3]]),
        "segment_ids": np.zeros((1, 4), "int32"),
        "padding_mask": np.ones((1, 4), bool),
    }
    before, names = np.array(backbone(batch)["sequence_output"]), set(named_weights(backbone))
    assert add_adapters(backbone, 3, alpha=6.0, layers=("query", "expand", "token")) == 5
    np.testing.assert_array_equal(np.array(backbone(batch)["sequence_output"]), before)
    assert {id(v) for v in backbone.trainable_variables} == {id(v) for v in adapter_weights(backbone).values()}
    for weight in adapter_weights(backbone).values():
        weight.assign(np.random.default_rng(0).normal(size=weight.shape) * 0.1)
    changed = np.array(backbone(batch)["sequence_output"])
    assert np.abs(changed - before).max() > 1e-3
    merged = {name: np.asarray(value) for name, value in merged_weights(backbone).items()}
    assert set(merged) == names
    plain = Bert(BertConfig(50, **SMALL)).initialize()
    for name, weight in named_weights(plain).items():
        weight.assign(merged[name])
    np.testing.assert_allclose(np.array(plain(batch)["sequence_output"]), changed, atol=1e-5)
