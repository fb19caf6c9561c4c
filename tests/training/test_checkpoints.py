"""A state is used by its own run, as it was written; a file of weights holds what it says."""

import json
import os
import pathlib
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from data_pipelines.errors import CheckpointError
from data_pipelines.files import file_sha256
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.small_learner import make_learner
from xmodels.models.folder import read_weights
from xmodels.runs import folder as run_folder
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import OPTIMIZER, STATE, WEIGHTS, State


def write_state(folder, step, run_id):
    path = folder / f"step_{step:08d}"
    path.mkdir(parents=True)
    for name in (WEIGHTS, OPTIMIZER):
        save_file({"a": np.ones(3, "float32")}, path / name)
    own = State(step, run_id=run_id).to_json()
    sums = {name: file_sha256(str(path / name)) for name in (WEIGHTS, OPTIMIZER)}
    (path / STATE).write_text(json.dumps({**own, "sha256": {**sums, STATE: checkpoints._sha256(own)}}))
    return path


def test_a_state_of_another_run_is_refused(tmp_path):
    path = write_state(tmp_path, 3, "mine")
    assert checkpoints.newest(str(tmp_path), "mine") == str(path)
    assert checkpoints.newest(str(tmp_path), None) == str(path)  # of a run that was begun by an older version
    with pytest.raises(
        CheckpointError, match="is a state of another run .`run_id` mine in state.json, yours in the config.json"
    ):
        checkpoints.newest(str(tmp_path), "yours")


def test_the_state_that_was_just_written_stays_whatever_lies_behind_it(tmp_path):
    for step in (100, 200):  # the best one, and one that was damaged and passed over
        write_state(tmp_path, step, "mine")
    path = checkpoints.save(str(tmp_path), make_learner(), State(150, best=1.0, best_step=100), keep=1)
    assert os.path.isdir(path) and len(checkpoints.complete(str(tmp_path))) == 3


def test_a_state_of_an_older_version_names_no_run(tmp_path):
    path = write_state(tmp_path, 3, None)
    stored = json.loads((path / STATE).read_text())
    del stored["sha256"][STATE]
    (path / STATE).write_text(json.dumps(stored))
    assert checkpoints.newest(str(tmp_path), "mine") == str(path)


EDITS = {
    "another number": lambda s: s.update(consumed=7),
    "a fraction": lambda s: s.update(step=3.0),
    "below zero": lambda s: s.update(consumed=-1),
    "an unknown key": lambda s: s.update(words=1),
    "no checksum of the weights": lambda s: s["sha256"].pop(WEIGHTS),
    "a checksum of a file elsewhere": lambda s: s["sha256"].update({"../x": "0" * 64}),
    "no checksums": lambda s: s.pop("sha256"),
    "checksums of another type": lambda s: s.update(sha256=[]),
    "another step": lambda s: (s.update(step=4), s["sha256"].pop(STATE)),
    "no finite text": lambda s: s.update(run_id=float("nan")),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_state_that_was_edited_is_passed_over_and_named(tmp_path, name, capsys):
    before, path = (write_state(tmp_path, step, "mine") for step in (1, 3))
    stored = json.loads((path / STATE).read_text())
    EDITS[name](stored)
    (path / STATE).write_text(json.dumps(stored))
    assert checkpoints.newest(str(tmp_path), "mine") == str(before)
    assert f"{path / STATE}: damaged" in capsys.readouterr().out


def tensor_file(path, header, length=None, data=bytes(64)):
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded) if length is None else length) + encoded + data)


def tensor(dtype, shape, *offsets):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


BROKEN = {
    "unknown type": ({"a": tensor("X9", [16], 0, 64)}, None),
    "a type that NumPy has not": ({"a": tensor("F8_E4M3", [64], 0, 64)}, None),
    "header longer than the file": ({"a": tensor("F32", [16], 0, 64)}, 1 << 20),
    "header longer than memory": ({"a": tensor("F32", [16], 0, 64)}, 1 << 62),
    "overlap": ({"a": tensor("F32", [16], 0, 64), "b": tensor("F32", [8], 32, 64)}, None),
    "size below zero": ({"a": tensor("F32", [-16], 0, 64)}, None),
    "size that is no whole number": ({"a": tensor("F32", [16.0], 0, 64)}, None),
    "offsets beyond the file": ({"a": tensor("F32", [32], 0, 128)}, None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_of_weights_that_cannot_be_is_named(tmp_path, name):
    header, length = BROKEN[name]
    tensor_file(tmp_path / WEIGHTS, header, length)
    with pytest.raises(CheckpointError, match=f"^{tmp_path / WEIGHTS}: ") as caught:
        read_weights(str(tmp_path / WEIGHTS))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_read_as_weights(tmp_path, make):
    make(tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match="is a folder, a pipe or a device, not a file"):
        read_weights(str(tmp_path / WEIGHTS))


def test_what_is_not_ours_outlives_states_and_the_network(tmp_path):
    """A file in a folder of ours, a folder with a name like ours, and what a killed run left, when states come and go."""
    learner = make_learner()
    states, ours = tmp_path / "checkpoints", "0123456789ab.partial"
    checkpoints.save(str(states), learner, State(1), keep=1)
    (states / "step_00000001/notes.txt").write_text("mine")
    (states / "step_thesis.partial").mkdir()
    (states / "step_thesis.partial/thesis.tex").write_text("mine")
    (states / "step_notes.partial").write_text("mine")
    killed = states / f"step_00000002.{ours}"
    killed.mkdir()
    (killed / WEIGHTS).write_bytes(b"half")
    checkpoints.save(str(states), learner, State(2), keep=1)
    assert [os.path.basename(path) for path in checkpoints.complete(str(states))] == ["step_00000002"]
    assert os.listdir(states / "step_00000001") == ["notes.txt"] and not killed.exists()
    checkpoints.save(str(states), learner, State(1), keep=2)  # again, over what is left of it
    assert set(os.listdir(states / "step_00000001")) == {WEIGHTS, OPTIMIZER, STATE, "notes.txt"}
    assert (
        (states / "step_thesis.partial/thesis.tex").read_text() == (states / "step_notes.partial").read_text() == "mine"
    )

    tokenizer = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]))
    for name in ("backbone.old", f"backbone.{ours}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("mine")
    for _ in range(2):
        path = run_folder.write_backbone(str(tmp_path), learner.backbone, None, tokenizer)
        pathlib.Path(path, "notes.txt").write_text("mine")
    assert pathlib.Path(path, "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["backbone", f"backbone.{ours}", "backbone.old", "checkpoints"]
    readable = {os.stat(file).st_mode & 0o777 for file in (tmp_path / "backbone").iterdir()}
    assert len(readable) == 1  # the weights too are for whoever may read the rest
