"""One way to train: `pretrain`, `finetune` and `multitask` make one `Training` each and hand it to `run`."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmodels.runs import folder as run_folder
from xmodels.runs.report import write_report
from xmodels.training.devices.workers import Workers
from xmodels.training.loop import Loop
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.step.learner import Learner
from xmodels.training.watching.progress import print_status
from xmodels.training.watching.watching import Watch

MOST_LOG_STEPS = 100  # between two progress lines, where nothing is given


@dataclasses.dataclass(frozen=True)
class Identity:
    """Which run this is; `folder.claim` explains the attributes."""

    folder: str
    job: dict
    flags: dict
    settings: dict
    structural: tuple[str, ...]
    resume: str
    phases: tuple[str, ...] = ()

    def claim(self) -> run_folder.Claim:
        """Makes the folder of the run, or finds what it holds already. Errors are those of `folder.claim`."""
        return run_folder.claim(*vars(self).values())

    def existing(self) -> run_folder.Claim:
        """Returns what the folder holds of this run; changes nothing. Errors are those of `folder.claim`."""
        return run_folder.existing(*vars(self).values())


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to, once its network is handed over.

    Attributes:
        title: of the model card.
        facts: what the model card lists, by name.
        results: scores by name, which results.json holds.
        kept_step: the step whose weights are handed over.
        baselines: scores that only the model card shows.
        closing: the last line, which says where the network is.
    """

    title: str
    facts: Mapping[str, str]
    results: dict[str, float]
    kept_step: int
    closing: str
    baselines: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Training:
    """A run that is ready to begin or to go on.

    Attributes:
        identity: which run it is, to find its own folder again.
        learner: what is trained, and on what.
        options: the training options of a command: how often it saves and logs, what it keeps, its seed.
        num_steps: updates in all.
        raised_by: the flag that gives a finished run more steps; None where another run goes on from this one.
        prepare_start: opens what a new run starts from, before anything is written; returns what gives the learner these weights, and
            gives the first state.
        restore: puts the learner where a state on disk stands; returns that state.
        watch: writes what explains the run before its first step; returns what looks at it on the way. Only the chief calls it.
        hand_over: writes the network of a run that is over; returns what came of it. Only the chief calls it.
        loop: further arguments of `Loop`: evaluations, and what to do on the way.
        reading: around the steps; turns errors of the data into errors that name what is damaged.
        announce: prints what begins, behind what `watch` prints.
        numbers: (name, value, where it comes from) of all that is set, for the model card.
    """

    identity: Identity
    learner: Learner
    options: Any
    num_steps: int
    raised_by: str | None
    prepare_start: Callable[[], Callable[[], State]]
    restore: Callable[[str], State]
    watch: Callable[[State], Watch]
    hand_over: Callable[[Loop, State], Outcome]
    loop: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reading: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    announce: Callable[[], None] = lambda: None
    numbers: Sequence[tuple[str, object, str]] = ()


def run(training: Training, workers: Workers) -> dict[str, float]:
    """Trains from the beginning or from the last state to the end, and writes network, model card, results and report.

    Of several workers the chief looks into the run folder and writes; all others get the state and the weights from it.

    Returns:
        The results; those on disk of a run that is finished already, nothing for workers that are not the chief.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    state, results = _start(training, workers)
    if results is not None:
        if training.raised_by:
            run_folder.print_finished(training.identity.folder, training.raised_by)
        else:
            print_status(f"{training.identity.folder}: finished already.")
        return results
    watch = training.watch(state) if workers.is_chief else Watch()
    training.announce()
    loop = _loop(training, workers.folder(training.identity.folder), watch)
    with training.reading():
        state = loop.run(state)
    return _finish(training, training.hand_over(loop, state), state) if workers.is_chief else {}


def _start(training: Training, workers: Workers) -> tuple[State, dict[str, float] | None]:
    """Returns the state from which training goes on, and the results of a run that is finished already, or None."""

    def of_chief():
        state, results = _claim(training)
        return state.to_json(), results

    state, results = workers.from_chief(of_chief)
    if results is None:
        workers.share(checkpoints.variables(training.learner))
    return State.from_json(state), results


def _claim(training: Training) -> tuple[State, dict[str, float] | None]:
    """Claims the run folder, and gives the learner its first weights or those of the last state."""
    begin = training.prepare_start()
    claim = training.identity.claim()
    if claim.results is not None:
        return State(0, training.options.seed, run_id=claim.run_id), claim.results
    state = training.restore(claim.state) if claim.state else begin()
    if claim.state:
        print_status(f"Resumed from {claim.state}: step {state.step} of {training.num_steps}.")
    return dataclasses.replace(state, run_id=claim.run_id), None


def log_interval(given: int | None, num_steps: int) -> int:
    """Returns the steps between two progress lines: as given, or so that a short run has twenty of them."""
    return given or min(MOST_LOG_STEPS, max(1, num_steps // 20))


def _loop(training: Training, folder: str, watch: Watch) -> Loop:
    options = training.options
    numbers = {
        "save_every": options.save_checkpoints_steps, "log_every": log_interval(options.log_steps, training.num_steps),
        "keep": options.keep_checkpoint_max,
        "max_skipped": options.max_skipped_steps, "watch": watch,
    }  # fmt: skip
    return Loop(training.learner, folder, training.num_steps, options.seed, **numbers | training.loop)


def _finish(training: Training, outcome: Outcome, state: State) -> dict[str, float]:
    """Writes the model card, the report and, as the last file of a run, its results."""
    folder = training.identity.folder
    shown = {**outcome.results, **outcome.baselines}
    run_folder.write_model_card(folder, outcome.title, outcome.facts, shown, training.numbers)
    run_folder.write_results(folder, training.num_steps, outcome.kept_step, outcome.results, state.step)
    print_status(f"Report: {write_report(folder)}")
    print_status(outcome.closing)
    return outcome.results
