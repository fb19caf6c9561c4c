"""Averages of the last states of a run, and runs with the flags of precision and memory."""

import dataclasses
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest
from safetensors.numpy import save_file

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.folder import read_model, read_weights
from xmodels.training.states import checkpoints
from xmodels.training.states.averaging import mean_of_files


@pytest.fixture
def options(records, small_config, tmp_path):
    return Options(
        system="bert_wwm", model_dir=str(tmp_path / "run"), data_dir=records, model_config_file=small_config,
        num_train_steps=6, train_batch_size=8, learning_rate=1e-2, num_warmup_steps=2, optimizer="bert_adamw",
        save_checkpoints_steps=2, log_steps=2, eval_steps=2,
    )  # fmt: skip


def test_the_mean_of_files_is_that_of_numpy(tmp_path):
    draw, paths = np.random.default_rng(0), []
    stored = [{"w": draw.standard_normal((3, 2)).astype("float32"), "n": np.array([i])} for i in range(3)]
    for number, values in enumerate(stored):
        paths.append(str(tmp_path / f"{number}.safetensors"))
        save_file(values, paths[-1])
    mean = mean_of_files(paths)
    np.testing.assert_allclose(mean["w"], np.mean([values["w"] for values in stored], axis=0), rtol=1e-6)
    assert mean["w"].dtype == np.float32 and mean["n"] == [2]


@pytest.mark.long
def test_the_last_states_are_averaged_at_the_end_and_by_the_command(options, tmp_path, capsys):
    pretrain(dataclasses.replace(options, average_checkpoints=3))
    states = checkpoints.complete(os.path.join(options.model_dir, "checkpoints"))
    assert [checkpoints.step_of(state) for state in states] == [2, 4, 6]  # more than are usually kept
    expected = mean_of_files([os.path.join(state, checkpoints.WEIGHTS) for state in states])
    handed_over = read_weights(os.path.join(options.model_dir, "backbone", "weights.safetensors"))
    assert all(np.array_equal(handed_over[name], expected[name]) for name in expected)
    assert "mean of the states of steps 2, 4, 6" in pathlib.Path(options.model_dir, "model_card.md").read_text()

    output = str(tmp_path / "averaged")
    assert invoke("average_checkpoints", model_dir=options.model_dir, last=2, output_dir=output) == 0
    backbone, heads = read_model(output)
    two = mean_of_files([os.path.join(state, checkpoints.WEIGHTS) for state in states[1:]])
    assert np.array_equal(backbone.embedding.token.embeddings.numpy(), two["backbone.embedding.token.embeddings"])
    assert heads and os.path.isfile(os.path.join(output, "vocab.txt"))
    capsys.readouterr()
    assert invoke("average_checkpoints", model_dir=options.model_dir, last=2, output_dir=output) == 2
    assert invoke("average_checkpoints", model_dir=options.model_dir, last=9, output_dir=f"{output}2") == 4
    assert "holds 3 whole state(s), not 9" in capsys.readouterr().err


@pytest.mark.long
def test_a_run_with_float16_averages_and_micro_batches_resumes_exactly(options, tmp_path, capsys):
    changes = {"mixed_precision": "float16", "ema_decay": 0.9, "gradient_accumulation_steps": 2, "rematerialize": True}
    try:
        options = dataclasses.replace(options, **changes)
        pretrain(options)
        assert "float16 without a GPU" in capsys.readouterr().out
        cut = dataclasses.replace(options, model_dir=str(shutil.copytree(options.model_dir, tmp_path / "cut")))
        shutil.rmtree(tmp_path / "cut/checkpoints/step_00000006")
        shutil.rmtree(tmp_path / "cut/backbone")
        with pytest.raises(UsageError, match="ema_decay: 0.9 then, 0.0 now"):
            pretrain(dataclasses.replace(cut, ema_decay=0.0))
        pretrain(dataclasses.replace(cut, resume="must"))
    finally:
        keras.config.set_dtype_policy("float32")
    for name in (checkpoints.WEIGHTS, checkpoints.OPTIMIZER):
        whole, resumed = (
            read_weights(os.path.join(run, "checkpoints/step_00000006", name))
            for run in (options.model_dir, cut.model_dir)
        )
        assert all(np.array_equal(resumed[key], whole[key]) for key in whole)
    state = checkpoints.complete(os.path.join(options.model_dir, "checkpoints"))[-1]
    optimizer = read_weights(os.path.join(state, checkpoints.OPTIMIZER))
    assert optimizer["loss_scale.scale"][0] <= 2.0**15
    handed_over = read_weights(os.path.join(options.model_dir, "backbone", "weights.safetensors"))
    name = "backbone.blocks.0.mixer.query.kernel"
    assert np.array_equal(handed_over[name], optimizer[f"average.{name}"])
    assert handed_over[name].dtype == np.float32


def test_flags_that_contradict_each_other_are_refused(options):
    wrong = [
        ({"average_checkpoints": 2, "ema_decay": 0.9}, "choose one"),
        ({"nonmonotonic_average": 5, "ema_decay": 0.9}, "--ema_decay=0.9 and --nonmonotonic_average=5 both say"),
        (
            {"nonmonotonic_average": 5, "eval_data_dir": None},
            "--nonmonotonic_average=5: evaluations say when it begins",
        ),
        ({"gradient_accumulation_steps": 3}, "multiple of the 1 devices times --gradient_accumulation_steps=3"),
    ]
    for changes, message in wrong:
        with pytest.raises(UsageError, match=message):
            pretrain(dataclasses.replace(options, **changes))
