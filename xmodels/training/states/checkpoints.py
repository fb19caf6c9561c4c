"""Resumable training states: written under a temporary name, completed by a rename and a marker, verified when read.

A state is a folder `step_00001200` with the weights of network and heads, the optimizer's variables, and state.json,
which names the step, the examples seen, and the SHA-256 of the other files. Only folders with a state.json count.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.files import check_own, file_sha256, own_folder, remove_own, temporary_name, write_json
from data_pipelines.schema import Count, Location, Positive, Sha256, convert
from xmodels.models.adapters import adapter_weights
from xmodels.models.backbone import named_weights
from xmodels.models.folder import read_json, read_weights, report_misfits, view_of, write_weights
from xmodels.training.step.streams import ONLY
from xmodels.training.watching.progress import print_status

CARRIED = "carried."  # in the names of variables that hold what rows carry from batch to batch

STATE, WEIGHTS, OPTIMIZER = "state.json", "weights.safetensors", "optimizer.safetensors"
FILES = WEIGHTS, OPTIMIZER, STATE  # the last one makes a state, so it is written last and removed first
ADVICE = "Remove the folder of this state; the run goes on from the state before it."


@dataclasses.dataclass(frozen=True)
class Position:
    """Where reading of a stream stands.

    Attributes:
        consumed: examples seen by all hosts.
        cursors: where reading of each host stands, of batches that are grouped by length or packed.
        first_epoch, first_consumed: the epoch with which reading began, and `consumed` at that time.
        lost: the names of damaged shards that are left out.
        hosts: how many machines read, each its own shards.
        grouped: how the windows of `cursors` were cut into groups; None in states of older versions.
    """

    consumed: Count = 0
    cursors: tuple[tuple[Count, Count, Count], ...] | None = None
    first_epoch: Count = 0
    first_consumed: Count = 0
    lost: tuple[str, ...] = ()
    hosts: Positive = 1
    grouped: str | None = None

    def reading(self, host: int = 0) -> dict:
        """Returns where reading of a host goes on; for `Batches.training`."""
        return {
            "consumed": (self.consumed - self.first_consumed) // self.hosts, "first_epoch": self.first_epoch,
            "cursor": self.cursors and tuple(self.cursors[host]),
        }  # fmt: skip

    def without(self, lost, num_examples: int) -> "Position":
        """Returns the position from which reading goes on when other shards are missing than before: at the next epoch.

        Args:
            lost: the names of the shards that are left out now.
            num_examples: an epoch so far.
        """
        if self.cursors:
            epoch = max(cursor[0] for cursor in self.cursors)
        else:
            epoch = self.first_epoch + (self.consumed - self.first_consumed) // num_examples
        return dataclasses.replace(
            self, cursors=None, first_epoch=int(epoch) + 1, first_consumed=self.consumed, lost=tuple(sorted(lost))
        )

    def read_by(self, hosts: int, num_examples: int) -> "Position":
        """Returns the position from which so many machines go on; at the next epoch, if another number of them read before."""
        if hosts != self.hosts and self.consumed:
            return dataclasses.replace(self.without(self.lost, num_examples), hosts=hosts)
        return dataclasses.replace(self, hosts=hosts)


@dataclasses.dataclass(frozen=True)
class State:
    """Where a run stands. Everything random is a function of the seed and these numbers.

    Attributes:
        step: updates done.
        seed: the run's seed.
        positions: {name of a stream: where reading of it stands}; a stream that is missing begins.
        best: the best value of the selection metric so far, where there is one.
        best_step: the step that reached it.
        run_id: of the run to which the state belongs; None in states of older versions.
    """

    step: Count = 0
    seed: int = 0
    positions: Mapping[str, Position] = dataclasses.field(default_factory=dict)
    best: float | None = None
    best_step: Count | None = None
    run_id: str | None = None

    @property
    def consumed(self) -> int:
        """Examples seen of all streams."""
        return sum(position.consumed for position in self.positions.values())

    def at(self, stream: str) -> Position:
        return self.positions.get(stream, Position())

    def with_position(self, stream: str, position: Position) -> "State":
        """Returns the state with another position of a stream."""
        return dataclasses.replace(self, positions={**self.positions, stream: position})

    def to_json(self) -> dict:
        """Returns what state.json holds; the position of an only stream stands beside the rest."""
        own = {"step": self.step, "seed": self.seed, "best": self.best, "best_step": self.best_step}
        own |= {"run_id": self.run_id} if self.run_id else {}
        positions = {name: dataclasses.asdict(position) for name, position in self.positions.items()}
        if set(positions) <= {ONLY}:
            place = positions.get(ONLY, dataclasses.asdict(Position()))
            own = {"step": own.pop("step"), "consumed": place.pop("consumed"), **own}  # in the order of older states
            return {**own, **place}
        return {**own, "streams": positions}

    @classmethod
    def from_json(cls, values: Mapping, source: str = STATE) -> "State":
        """Returns the inverse of `to_json`.

        Raises:
            CheckpointError: a key is unknown, or a value of another type; names both.
        """
        values, place = dict(values), Location(source, error=CheckpointError, advice=ADVICE)
        if cursor := values.pop("cursor", None):  # of versions that knew one host only
            values["cursors"] = [cursor]
        streams = values.pop("streams", None)
        if streams is None:
            names = [field.name for field in dataclasses.fields(Position) if field.name in values]
            streams = {ONLY: {name: values.pop(name) for name in names}}
        return convert({**values, "positions": streams}, cls, place)


def kept_weights(learner) -> dict:
    """Returns the weights that a state holds, by name: all; of a network with adapters only these, as its others do not change."""
    backbone, objective = learner.backbone, learner.objective
    own = adapter_weights(backbone) or named_weights(backbone)
    parts = ("backbone", own), (objective.prefix, named_weights(objective))
    return {f"{prefix}.{name}": weight for prefix, part in parts for name, weight in part.items()}


def optimizer_variables(learner) -> dict:
    """Returns what a state holds beside weights, by name."""
    return learner.optimizer.named_variables | learner.further_variables


def _optimizer_values(learner) -> dict[str, np.ndarray]:
    return {name: np.atleast_1d(view_of(v)) for name, v in optimizer_variables(learner).items()}


def save(folder: str, learner, state: State, keep: int = 2) -> str:
    """Writes the state of a learner below `folder` and removes all but the `keep` newest and the best."""
    path = path_of(folder, state.step)
    own_folder(folder)
    check_own(path)
    for name in os.listdir(folder):
        if re.fullmatch(r"step_\d{8}\.[0-9a-f]{12}\.partial", name):  # of a run that was killed
            remove_own(os.path.join(folder, name), reversed(FILES))
    temporary = temporary_name(path)
    os.makedirs(temporary)
    weights = {name: view_of(weight) for name, weight in kept_weights(learner).items()}
    for name, values in ((WEIGHTS, weights), (OPTIMIZER, _optimizer_values(learner))):
        write_weights({n: np.ascontiguousarray(v) for n, v in values.items()}, os.path.join(temporary, name))
        _to_disk(os.path.join(temporary, name))
    sums = {name: file_sha256(os.path.join(temporary, name)) for name in (WEIGHTS, OPTIMIZER)}
    own = state.to_json()
    write_json(os.path.join(temporary, STATE), {**own, "sha256": {**sums, STATE: _sha256(own)}})
    remove_own(path, reversed(FILES))  # the same step, written before an interruption
    if os.path.isdir(path):  # it holds what is not ours
        for name in FILES:
            os.replace(os.path.join(temporary, name), os.path.join(path, name))
        os.rmdir(temporary)
    else:
        os.replace(temporary, path)
    _to_disk(folder)
    # A later state is one that was damaged and passed over.
    for old in [each for each in complete(folder) if step_of(each) <= state.step][:-keep]:
        if step_of(old) != state.best_step:
            remove_own(old, reversed(FILES))
    return path


def _sha256(values: Mapping) -> str:
    """Returns the checksum of what state.json says beside checksums."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _to_disk(path: str) -> None:
    """Waits until a file, or the names in a folder, would outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def variables(learner) -> list:
    """Returns all variables that a state holds, in an order that every worker shares."""
    parts = learner.backbone.variables, learner.objective.variables, learner.optimizer.variables
    return [*(v for part in parts for v in part), *learner.further_variables.values()]


def path_of(folder: str, step: int) -> str:
    """Returns the state of a step below `folder`."""
    return os.path.join(folder, f"step_{step:08d}")


def complete(folder: str) -> list[str]:
    """Returns the whole states below `folder`, oldest first."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if re.fullmatch(r"step_\d{8}", name)]
    return [path for path in paths if os.path.isfile(os.path.join(path, STATE))]


def step_of(path: str) -> int:
    """Returns the step of a state, by the name of its folder."""
    return int(os.path.basename(path).removeprefix("step_"))


def newest(folder: str, run_id: str | None = None) -> str | None:
    """Returns the newest state below `folder` whose files are as they were written; says which damaged ones it passes over.

    Args:
        run_id: of the run that goes on.

    Raises:
        CheckpointError: there are states, and all of them are damaged; or the newest belongs to another run.
    """
    paths = complete(folder)
    problems: list[str] = []
    for path in reversed(paths):
        damaged = damaged_file(path)
        if damaged is None:
            check_run(path, run_id)
            for problem in problems:
                print_status(f"Warning: {problem}. Going on from the state before it, {path}.")
            return path
        problems.append(f"{damaged}: damaged (its SHA-256 is not that in {STATE})")
    if problems:
        raise CheckpointError(
            f"{'; '.join(problems)}. No other state is left in {folder}: start anew in another --model_dir."
        )
    return None


def damaged_file(path: str) -> str | None:
    """Returns the first file of a state that is missing or not as it was written."""
    source = os.path.join(path, STATE)
    try:
        stored = read_json(source)
        sums = convert(stored.pop("sha256", None), dict[str, Sha256], Location(source, "sha256", CheckpointError))
        whole = State.from_json(stored, source).step == step_of(path) and {WEIGHTS, OPTIMIZER} <= set(sums) <= {
            WEIGHTS,
            OPTIMIZER,
            STATE,
        }
    except CheckpointError:
        return source
    if not whole or not {WEIGHTS, OPTIMIZER} <= set(sums) <= {WEIGHTS, OPTIMIZER, STATE}:
        return source
    if sums.pop(STATE, _sha256(stored)) != _sha256(stored):
        return source
    for name, wanted in sums.items():
        source = os.path.join(path, name)
        if not os.path.isfile(source) or file_sha256(source) != wanted:
            return source
    return None


def check_run(path: str, run_id: str | None) -> None:
    """Raises a CheckpointError where a state says that it belongs to another run."""
    found = read_json(os.path.join(path, STATE)).get("run_id")
    if run_id and found and found != run_id:
        raise CheckpointError(
            f"{path}: is a state of another run (`run_id` {found} in {STATE}, {run_id} in the config.json of this one). Move it "
            "back. To begin a run with the weights of another, make a model folder of them with `xmodels average_checkpoints "
            "--last=1`, and name that by --init_checkpoint."
        )


def restore(path: str, learner) -> State:
    """Puts a learner into a saved state, which `newest` has found.

    Raises:
        CheckpointError: the state does not fit the network or the optimizer.
    """
    weights, kept = read_weights(os.path.join(path, WEIGHTS)), kept_weights(learner)
    report_misfits({n: tuple(v.shape) for n, v in kept.items()}, {n: v.shape for n, v in weights.items()}, path)
    for name, weight in kept.items():
        weight.assign(weights[name])
    values = read_weights(os.path.join(path, OPTIMIZER))
    variables = optimizer_variables(learner)
    if variables.keys() != values.keys() and hasattr(learner.optimizer, "upgrade"):
        further = {name: value for name, value in values.items() if name in learner.further_variables}
        own = {name: value for name, value in values.items() if name not in further}
        values = learner.optimizer.upgrade(own) | further
    shapes = {name: tuple(v.shape) or (1,) for name, v in variables.items()}
    if any(CARRIED in name and shapes.get(name, value.shape) != value.shape for name, value in values.items()):
        print_status("Rows of a batch are others than before: they begin with an empty memory.")
        variables, values, shapes = _without_memory(variables), _without_memory(values), _without_memory(shapes)
    if shapes != {name: value.shape for name, value in values.items()}:
        raise CheckpointError(f"{path}: written with another optimizer; resume with the --optimizer of the first run.")
    for name, variable in variables.items():
        variable.assign(values[name].reshape(tuple(variable.shape)))
    return stored_state(path)


def _without_memory(named: dict[str, Any]) -> dict[str, Any]:
    """Returns what does not belong to a memory that is carried from batch to batch."""
    return {name: each for name, each in named.items() if CARRIED not in name}


def stored_state(path: str) -> State:
    """Returns what state.json says."""
    stored = read_json(os.path.join(path, STATE))
    stored.pop("sha256", None)
    return State.from_json(stored, os.path.join(path, STATE))
