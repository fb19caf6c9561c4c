"""How a pretraining begins: from random weights, from a checkpoint, or from its last state."""

from collections.abc import Callable

from xmodels.jobs.pretrain import network
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.plan import Plan
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.states.growth import restore_grown
from xmodels.training.watching.progress import print_status


def prepare_start(plan: Plan) -> Callable[[], State]:
    """Opens the checkpoint to start from; returns what gives the network its weights, and the first state.

    Raises:
        ReportedError: the checkpoint cannot be read, or does not fit the network.
    """
    initial, learner = plan.load_initial(), plan.learner

    def begin() -> State:
        if initial:
            network.initialize(initial, plan.options.init_checkpoint, learner.backbone, learner.objective)
        position = checkpoints.Position(lost=tuple(sorted(plan.source.lost)))
        return State(0, plan.options.seed, dict.fromkeys(learner.streams, position))

    return begin


def restore(plan: Plan, path: str) -> State:
    """Puts the learner where a state on disk stands; returns that state, at positions in the records that there are now."""
    state, new = restore_grown(path, plan.learner)
    if new:
        print_status(f"New heads, which begin with random weights: {', '.join(new)}.")
    for name, stream in plan.learner.streams.items():
        state = state.moved(name, pretraining_records.adapt(state.at(name), stream.batches.source))
    return state
