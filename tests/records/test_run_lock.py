"""Two runs never share a folder, and a run deletes nothing that is not its own."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from data_pipelines.errors import UsageError
from data_pipelines.files import is_temporary, temporary_name
from data_pipelines.lock import LOCK, check_free, hold_lock
from tests.helpers.samples import ROOT, make_records
from xmodels.runs import folder as run_folder

HOLDER = """
import sys, time
from data_pipelines.lock import hold_lock
with hold_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path/run`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_process_is_refused_and_told_who_the_first_one_is(holder, tmp_path):
    before = (tmp_path / "run" / LOCK).read_bytes()
    with pytest.raises(UsageError, match=rf"another run works in it \(process {holder.pid} on .*, since 20"):
        with hold_lock(str(tmp_path / "run")):
            pass
    with pytest.raises(UsageError, match=rf"another run works in it \(process {holder.pid} on "):
        check_free(str(tmp_path / "run"))
    assert (tmp_path / "run" / LOCK).read_bytes() == before


def test_a_lock_ends_with_its_process_however_that_ends(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / LOCK).exists()
    check_free(str(tmp_path / "run"))
    check_free(str(tmp_path / "absent"))
    with hold_lock(str(tmp_path / "run")):
        assert json.loads((tmp_path / "run" / LOCK).read_text())["process"] == os.getpid()
        with pytest.raises(UsageError, match="another run"), hold_lock(str(tmp_path / "run")):
            pass
    assert not (tmp_path / "run").exists()  # it held nothing


def test_two_writers_of_one_folder_of_records(tmp_path, zh_vocabulary):
    """The second is refused; what a killed first one has left, its lock too, does not stop the next."""
    folder = tmp_path / "records"
    with hold_lock(str(folder), "output_dir"):
        with pytest.raises(
            UsageError, match=rf"--output_dir={folder}: another run works .*process {os.getpid()} on .*since 20"
        ):
            make_records(folder, zh_vocabulary)
        owner = (folder / LOCK).read_text()
    folder.mkdir()
    (folder / LOCK).write_text(owner)
    make_records(folder, zh_vocabulary, num_shards=1)
    assert sorted(os.listdir(folder)) == ["manifest.json", "records-00000-of-00001.tfrecord", "vocab.txt"]


def test_a_lock_leaves_what_a_run_has_written(tmp_path):
    with pytest.raises(ZeroDivisionError), hold_lock(str(tmp_path)):
        (tmp_path / "config.json").write_text("{}")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["config.json"]


def test_a_link_that_leads_nowhere_is_an_error_soon(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError), hold_lock(str(tmp_path / "link")):
        pass


def test_of_many_that_begin_at_once_one_at_a_time_has_the_folder(tmp_path):
    """A file that is removed and made again is another one; whoever locks the old one has nothing."""
    body = f"""
import os, sys
from data_pipelines.errors import UsageError
from data_pipelines.lock import hold_lock
mine, done = {str(tmp_path)!r} + "/inside", 0
while done < 200:
    try:
        with hold_lock({str(tmp_path / "run")!r}):
            os.close(os.open(mine, os.O_CREAT | os.O_EXCL))
            os.remove(mine)
            done += 1
    except UsageError:
        pass
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen([sys.executable, "-c", body], env=environment) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]


def test_only_temporary_files_of_ours_are_removed(tmp_path):
    ours, theirs = pathlib.Path(temporary_name(str(tmp_path / "config.json"))), tmp_path / "thesis.partial"
    ours.write_text("half")
    unfinished = pathlib.Path(
        temporary_name(str(tmp_path / "averaged"))
    )  # a folder, of another verb that may be under way
    unfinished.mkdir()
    arguments = str(tmp_path), {"job": "pretrain"}, {}, {"num_train_steps": 5}, (), "auto"
    run_folder.claim(*arguments)
    assert not ours.exists() and (tmp_path / "config.json").exists() and unfinished.exists()
    theirs.write_text("years of work")
    run_folder.claim(*arguments)
    assert theirs.read_text() == "years of work" and not is_temporary(theirs.name)


def test_a_folder_with_a_file_of_somebody_else_is_no_run(tmp_path):
    (tmp_path / "thesis.partial").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty and not a run"):
        run_folder.claim(str(tmp_path), {"job": "pretrain"}, {}, {"num_train_steps": 5}, (), "auto")
