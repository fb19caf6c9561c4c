"""Resumable training states: written under a temporary name, completed by a rename and a marker, verified when read.

A state is a folder `step_00001200` with the weights of network and heads, the optimizer's variables, and state.json,
which names the step, the examples seen, and the SHA-256 of the other files. Only folders with a state.json count.
"""

import dataclasses
import os
import re
import shutil

import numpy as np
from safetensors.numpy import save_file

from data_pipelines.errors import CheckpointError
from data_pipelines.records import file_sha256, write_json
from xmodels.models.folder import assign, read_json, read_weights, values_of

STATE, WEIGHTS, OPTIMIZER = "state.json", "weights.safetensors", "optimizer.safetensors"


@dataclasses.dataclass(frozen=True)
class State:
    """Where a run stands. Everything random is a function of the seed and these numbers.

    Attributes:
        step: updates done.
        consumed: examples seen by all hosts.
        seed: the run's seed.
        best: the best value of the selection metric so far, where there is one.
    """

    step: int
    consumed: int
    seed: int
    best: float | None = None


def _optimizer_variables(optimizer) -> dict:
    # Their order follows from the order of the weights, which the network fixes. Of their names only the last word is
    # stable: Keras numbers the networks that one process makes.
    return {f"{i:05d}.{v.name.rsplit('_', 1)[-1]}": v for i, v in enumerate(optimizer.variables)}


def _optimizer_values(optimizer) -> dict[str, np.ndarray]:
    return {name: np.atleast_1d(v.numpy()) for name, v in _optimizer_variables(optimizer).items()}


def save(folder: str, learner, state: State, keep: int = 2) -> str:
    """Writes the state of a learner below `folder` and removes all but the `keep` newest."""
    path = os.path.join(folder, f"step_{state.step:08d}")
    temporary = f"{path}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    objective = learner.objective
    weights = values_of("backbone", learner.backbone) | values_of(objective.prefix, objective)
    for name, values in ((WEIGHTS, weights), (OPTIMIZER, _optimizer_values(learner.optimizer))):
        save_file({n: np.ascontiguousarray(v) for n, v in values.items()}, os.path.join(temporary, name))
    sums = {name: file_sha256(os.path.join(temporary, name)) for name in (WEIGHTS, OPTIMIZER)}
    write_json(os.path.join(temporary, STATE), {**dataclasses.asdict(state), "sha256": sums})
    shutil.rmtree(path, ignore_errors=True)  # the same step, written before an interruption
    os.replace(temporary, path)
    for old in complete(folder)[:-keep]:
        shutil.rmtree(old)
    return path


def complete(folder: str) -> list[str]:
    """The whole states below `folder`, oldest first."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if re.fullmatch(r"step_\d{8}", name)]
    return [path for path in paths if os.path.isfile(os.path.join(path, STATE))]


def restore(path: str, learner) -> State:
    """Puts a learner into a saved state.

    Raises:
        CheckpointError: a file is damaged, or does not fit the network or the optimizer.
    """
    stored = read_json(os.path.join(path, STATE))
    for name, wanted in stored.pop("sha256").items():
        source = os.path.join(path, name)
        if not os.path.isfile(source) or file_sha256(source) != wanted:
            raise CheckpointError(
                f"{source}: damaged (SHA-256 differs from {STATE}). Delete {path} to resume from the state before it."
            )
    weights = read_weights(os.path.join(path, WEIGHTS))
    assign("backbone", learner.backbone, weights, path)
    assign(learner.objective.prefix, learner.objective, weights, path)
    values = read_weights(os.path.join(path, OPTIMIZER))
    variables = _optimizer_variables(learner.optimizer)
    wanted = {name: tuple(v.shape) or (1,) for name, v in variables.items()}
    if wanted != {name: value.shape for name, value in values.items()}:
        raise CheckpointError(f"{path}: written with another optimizer; resume with the --optimizer of the first run.")
    for name, variable in variables.items():
        variable.assign(values[name].reshape(variable.shape))
    return State(**stored)
