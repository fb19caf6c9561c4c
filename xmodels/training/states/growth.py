"""A state of a run in the learner of the same run with further heads: all that was learnt is kept, the new heads begin at random."""

import dataclasses
import os

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.models.backbone import named_weights
from xmodels.models.folder import assign, read_weights
from xmodels.training.states.checkpoints import OPTIMIZER, WEIGHTS, State, optimizer_variables, restore, stored_state

OF_STREAMS = "stream_credits"  # as many as there are streams


def restore_grown(path: str, learner) -> tuple[State, list[str]]:
    """Puts a learner into a saved state that may lack its last heads, and the optimizer into that of all others.

    Returns:
        The state, and the labels of the heads that are new. With new heads, the best loss so far says nothing any more.

    Raises:
        CheckpointError: the state does not fit otherwise.
    """
    weights = read_weights(os.path.join(path, WEIGHTS))
    new = [part for part in learner.objective.parts if not any(n.startswith(f"{part.prefix}.") for n in weights)]
    new = [part for part in new if named_weights(part)]
    if not new:
        return restore(path, learner), []
    known = tuple(f"{part.prefix}." for part in learner.objective.parts)
    if dropped := sorted(n for n in weights if n.startswith("objective.") and not n.startswith(known)):
        raise CheckpointError(
            f"{path}: holds heads that this run has not: {', '.join(dropped)}. Tasks can only be added."
        )
    assign("backbone", learner.backbone, weights, path)
    for part in learner.objective.parts:
        if part not in new:
            assign(part.prefix, part, weights, path)
    _restore_optimizer(path, learner)
    for part in new:  # its moving average begins where it does
        for name, weight in named_weights(part).items():
            if (average := learner.further_variables.get(f"average.{part.prefix}.{name}")) is not None:
                average.assign(weight)
    state = stored_state(path)
    return dataclasses.replace(state, best=None, best_step=None), [part.label for part in new]


def _restore_optimizer(path: str, learner) -> None:
    """Restores the optimizer: of each kind of variable those of the new weights stand behind all others, as their heads do."""
    stored = read_weights(os.path.join(path, OPTIMIZER))
    before, now = _by_kind(stored), _by_kind(optimizer_variables(learner))
    if set(before) - set(now) - {OF_STREAMS}:
        raise CheckpointError(f"{path}: written with another optimizer; resume with the --optimizer of the first run.")
    for kind, variables in now.items():
        for value, variable in zip(before.get(kind, []), variables, strict=False):
            if kind == OF_STREAMS:
                continue
            shape = tuple(variable.shape)
            if np.shape(value) != (shape or (1,)):
                raise CheckpointError(
                    f"{path}: {kind} has shape {list(np.shape(value))}, expected {list(shape)}. Tasks can only be added behind those "
                    "that the run has."
                )
            variable.assign(np.reshape(value, shape))


def _by_kind(variables) -> dict[str, list]:
    """Returns numbered variables by what follows the number, such as `momentum`, in order; others by their whole name."""
    found: dict[str, list] = {}
    for name in sorted(variables):
        number, _, kind = name.partition(".")
        found.setdefault(kind if number.isdigit() else name, []).append(variables[name])
    return found
