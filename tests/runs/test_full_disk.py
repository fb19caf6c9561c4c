"""A disk that is full ends a command in one line that names the file; nothing half is left under its name."""

import contextlib
import json
import os
import resource

import numpy as np
import pytest

from data_pipelines.files import whole_file
from launch.command import _guarded
from xmodels.models.folder import write_weights
from xmodels.training.watching.run_log import RunLog


@contextlib.contextmanager
def little_room(size=1000):
    """No file may grow beyond so many bytes, which an operating system says as it says that a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def a_whole_file(folder):
    with whole_file(str(folder / "made")) as file:
        file.write(bytes(10**5))


def weights(folder):
    write_weights({"a": np.zeros(10**5, "f4")}, str(folder / "made"))


def a_log(folder):
    log = RunLog(str(folder))
    os.rename(folder / "log.jsonl", folder / "made")
    log.path = str(folder / "made")
    with little_room():
        log.note("train", 1, {"x": "y" * 10**5})


@pytest.mark.parametrize("write", [a_whole_file, weights, a_log])
def test_the_file_is_named(tmp_path, write):
    with little_room() if write is not a_log else contextlib.nullcontext(), pytest.raises(OSError) as error:
        write(tmp_path)
    assert error.value.filename == str(tmp_path / "made") and error.value.strerror
    if write is a_whole_file:
        assert not os.listdir(tmp_path)


def test_a_command_ends_in_one_line(tmp_path, capsys):
    def work():
        with little_room():
            weights(tmp_path)

    assert _guarded("xmodels pretrain", work) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path / "made") in said


def test_events_for_tensorboard_end_without_ending_the_training(tmp_path, capsys):
    log = RunLog(str(tmp_path))
    log.write("train", 1, {"loss": 2.0})
    with little_room(2000):
        for step in range(2, 5):
            log.samples(step, [])
            log.histograms(step, {f"weight {i}": np.arange(100.0) for i in range(20)})
    log.write("train", 5, {"loss": 1.0})
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5]
    said = capsys.readouterr()
    assert (said.out + said.err).count("TensorBoard's files end here") == 1 and str(
        tmp_path / "tensorboard"
    ) in said.out + said.err


def test_a_run_begins_where_no_events_can_be_written(tmp_path, capsys, monkeypatch):
    def refuse(folder):
        raise OSError(28, "No space left on device", folder)

    monkeypatch.setattr("tensorflow.summary.create_file_writer", refuse)
    RunLog(str(tmp_path)).write("train", 1, {"loss": 2.0})
    assert "No space left on device" in "".join(capsys.readouterr())
