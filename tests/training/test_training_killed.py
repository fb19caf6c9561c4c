"""Training in processes of their own that are killed, or asked to end."""

import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from data_pipelines.errors import CheckpointError
from tests.training.test_training import ROOT, largest_difference, make_options, weights
from xmodels.conversion import convert
from xmodels.training.states import checkpoints


@pytest.fixture
def options(records, small_config, tmp_path):
    return make_options(records, small_config, tmp_path)


def command(options, **changes):
    values = dataclasses.asdict(dataclasses.replace(options, **changes))
    flags = [f"--{name}={value}" for name, value in values.items() if value is not None]
    return [sys.executable, "-m", "launch", "pretrain", *flags]


@pytest.mark.long
def test_run_killed_at_a_random_step_ends_with_equal_weights(options, tmp_path):
    """`benchmarks.kill_and_resume` kills as often as one likes."""
    steps = {"num_train_steps": 120, "save_checkpoints_steps": 5, "log_steps": 1}
    whole, killed = str(tmp_path / "whole"), str(tmp_path / "killed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command(options, model_dir=whole, **steps), check=True, env=environment, capture_output=True)
    log = pathlib.Path(killed, "log.jsonl")
    target = random.Random(time.time_ns()).randrange(6, 100)
    process = subprocess.Popen(
        command(options, model_dir=killed, **steps), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while process.poll() is None and (not log.is_file() or log.read_text().count("\n") < target):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = [checkpoints.step_of(path) for path in checkpoints.complete(os.path.join(killed, "checkpoints"))]
    assert done, "no whole state after the kill"
    assert max(done) < 120, "killed too late to test anything"
    subprocess.run(command(options, model_dir=killed, **steps), check=True, env=environment, capture_output=True)
    assert largest_difference(weights(whole), weights(killed)) == 0.0, f"killed near step {target}"


def test_sigterm_saves_the_state_and_ends_with_its_own_exit_code(options):
    process = subprocess.Popen(
        command(options, num_train_steps=100_000, save_checkpoints_steps=50_000), stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("step 4/"):
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "The same command resumes" in errors
    assert len(checkpoints.complete(os.path.join(options.model_dir, "checkpoints"))) == 1
    with pytest.raises(CheckpointError, match="not finished"):
        convert.load(options.model_dir)
