"""A disk that is full ends a command in one line that names the file; nothing half is left under its name."""

import contextlib
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
