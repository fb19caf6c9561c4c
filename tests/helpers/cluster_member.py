"""One worker of a job of two, whose results test_cluster.py compares: `python -m tests.helpers.cluster_member FOLDER`."""

import os
import signal
import sys

import numpy as np

from data_pipelines.errors import DataError, ReportedError
from tests.helpers.small_learner import make_batches, make_learner, train, values
from xmodels.training.devices import distribution
from xmodels.training.devices.workers import Workers
from xmodels.training.loop import Interrupted, Loop
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Memory
from xmodels.training.watching.watching import Watch

# Rows hide unequal numbers of tokens, and the norm of the gradients is above what it is clipped to.
COMBINATIONS = {
    "plain": {"optimizer": "bert_adamw", "clip_norm": 0.1},
    "compiled": {"optimizer": "lamb", "clip_norm": 0.1, "jit_compile": True, "memory": Memory(2, ema_decay=0.9)},
    "dropout": {"dropout": 0.5, "optimizer": "adamw"},
}


def batches_of(name):
    """Three batches; with dropout one, whose halves, and so the shares of two workers, are equal."""
    if name != "dropout":
        return make_batches(3)
    half = next(make_batches(1, rows=4))
    return [{name: np.concatenate([x, x]) for name, x in half.items()}]


def trained(strategy, name):
    """A learner that was trained in one of the ways above."""
    learner = make_learner(strategy, **COMBINATIONS[name])
    train(learner, batches_of(name))
    return learner


class SignalAtStep(Watch):
    """Sends SIGTERM to this process before it goes on from step 3, if it is not the chief."""

    def before(self, step):
        if step == 3 and os.environ["TF_CONFIG"].endswith('"index": 1}}'):
            os.kill(os.getpid(), signal.SIGTERM)


def stopped_by_a_signal(learner, folder):
    """The step at which a run stands that another worker got a signal for, and the exit code."""
    loop = Loop(learner, folder, num_steps=10**6, seed=0, save_every=10**6, log_every=1, watch=SignalAtStep())
    try:
        loop.run(checkpoints.State(learner.step))
    except Interrupted as stop:
        return learner.step, stop.exit_code


def told_by_chief(workers):
    """The error that the chief alone meets."""

    def work():
        assert workers.is_chief
        raise DataError("the chief's disk is full")

    try:
        workers.from_chief(work)
    except ReportedError as error:
        return f"{error} ({error.exit_code})"


def main(folder):
    strategy = distribution.choose("auto")
    workers = Workers(strategy)
    results = {}
    for name in COMBINATIONS:
        learner = trained(strategy, name)
        results |= {f"{name}/{n}": value for n, value in values(learner).items()}
    for variable in learner.backbone.trainable_variables:
        variable.assign(variable + workers.index)
    workers.share(checkpoints.variables(learner))
    results |= {f"shared/{n}": value for n, value in values(learner).items()}
    results["step"], results["exit_code"] = stopped_by_a_signal(learner, workers.folder(f"{folder}/run"))
    results["told"] = told_by_chief(workers)
    np.savez(f"{folder}/worker_{workers.index}.npz", **results)


if __name__ == "__main__":
    main(sys.argv[1])
