"""No verb writes through a link in a folder of its own."""

import json
import os
import pathlib
import stat
import types

import numpy as np
import pytest

from data_pipelines import files
from data_pipelines.errors import UsageError
from data_pipelines.lock import LOCK, check_free, hold_lock
from data_pipelines.text.kinds import open_tokenizer
from xmodels.runs import folder as run_folder
from xmodels.training.states import checkpoints
from xmodels.training.step.nonfinite import Skipped
from xmodels.training.watching.run_log import RunLog

WORDS = "years of work\n"
CONFIG = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}


@pytest.fixture
def precious(tmp_path):
    """A file that is somebody else's, and whose contents no test may change."""
    path = tmp_path / "precious.txt"
    path.write_text(WORDS)
    yield path
    assert path.read_text() == WORDS


@pytest.mark.parametrize("make", [os.symlink, os.link], ids=["link", "second name"])
def test_a_lock_that_is_another_file_is_refused(tmp_path, precious, make):
    (tmp_path / "run").mkdir()
    make(precious, tmp_path / "run" / LOCK)
    with pytest.raises(UsageError, match=r"run\.lock: (is a link|has another name)"), hold_lock(str(tmp_path / "run")):
        pass
    with pytest.raises(UsageError):
        check_free(str(tmp_path / "run"))


def test_a_lock_that_is_a_link_to_nothing_makes_nothing(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "new")
    with pytest.raises(UsageError, match="is a link"), hold_lock(str(tmp_path / "run")):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / LOCK)
    for take in (lambda folder: hold_lock(folder).__enter__(), check_free):
        with pytest.raises(UsageError, match="no regular file"):
            take(str(tmp_path))


def test_a_file_takes_the_place_of_a_link(tmp_path, precious):
    (tmp_path / "model_card.md").symlink_to(precious)
    run_folder.write_model_card(str(tmp_path), "title", {}, {})
    assert stat.S_ISREG(os.lstat(tmp_path / "model_card.md").st_mode)


def test_a_log_is_not_written_through_links(tmp_path, precious):
    (tmp_path / "log.jsonl").symlink_to(precious)
    (tmp_path / "log.jsonl.damaged").symlink_to(precious)
    with pytest.raises(UsageError, match="damaged: is a link"):
        RunLog(str(tmp_path))
    (tmp_path / "log.jsonl.damaged").unlink()
    log = RunLog(str(tmp_path))
    log.note("samples", 1, {})
    assert json.loads((tmp_path / "log.jsonl").read_text())["step"] == 1
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "log.jsonl").symlink_to(precious)  # while the run goes on
    with pytest.raises(UsageError, match="is a link"):
        log.note("samples", 2, {})


def test_a_skipped_step_is_not_written_through_links(tmp_path, precious):
    (tmp_path / "nonfinite").mkdir()
    for end in ("npz", "json"):
        (tmp_path / f"nonfinite/step_00000001.{end}").symlink_to(precious)
    path = Skipped(1, {"token_ids": np.zeros(3)}, {}, {}).write(str(tmp_path), {})
    assert not os.path.islink(path) and json.loads(pathlib.Path(path).read_text())["step"] == 1


def test_files_below_a_link_are_not_removed(tmp_path, precious):
    (tmp_path / "step_00000001").symlink_to(tmp_path)
    files.remove_own(str(tmp_path / "step_00000001"), [precious.name])
    assert precious.exists()


@pytest.mark.parametrize("name", run_folder.OWN_FOLDERS)
def test_a_run_whose_folder_is_a_link_does_not_begin(tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"{name}: is a link"):
        run_folder.claim(str(tmp_path / "run"), {"job": "pretrain"}, {}, {"num_train_steps": 5}, (), "auto")
    assert not os.listdir(tmp_path / "elsewhere")


def test_files_of_a_run_take_the_place_of_links_and_change_nothing_of_what_those_lead_to(
    tmp_path, precious, zh_vocabulary
):
    run, job = tmp_path / "run", ({"job": "pretrain"}, {"system": "bert"}, {"num_train_steps": 5}, (), "auto")
    run_folder.claim(str(run), *job)
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(tmp_path / "config.json")  # which is read, and must be that of this run
    names = ("flags.txt", "environment.json", "results.json", "model_card.md", "vocab.txt", "data_manifest.json",
             "SHA256SUMS")  # fmt: skip
    for name in names:
        (run / name).unlink(missing_ok=True)
        if name != "SHA256SUMS":  # which is read before it is written
            (run / name).symlink_to(precious)
    (tmp_path / "manifest.json").write_text("{}")
    before = (tmp_path / "config.json").read_bytes()
    run_folder.claim(str(run), *job)
    run_folder.write_data(str(run), open_tokenizer(zh_vocabulary), str(tmp_path))
    run_folder.write_results(str(run), 5, 5, {})
    run_folder.write_model_card(str(run), "title", {}, {})
    assert not [path.name for path in run.iterdir() if path.is_symlink()] and set(names) <= set(os.listdir(run))
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_state_is_not_written_below_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step_00000003").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="step_00000003: is a link"):
        checkpoints.save(str(tmp_path / "checkpoints"), None, types.SimpleNamespace(step=3))
    assert not os.listdir(tmp_path / "elsewhere")
