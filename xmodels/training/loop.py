"""Trains: several steps per call of the graph, with logs, evaluations and checkpoints in between."""

import dataclasses
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import ReportedError
from data_pipelines.progress import steps_bar
from xmodels.training.devices.workers import Workers
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import Position, State
from xmodels.training.step.learner import Learner
from xmodels.training.step.nonfinite import FOLDER, check_skipped
from xmodels.training.watching.progress import line, print_status, scores
from xmodels.training.watching.run_log import RunLog, memory_gib
from xmodels.training.watching.watching import Watch

SECONDS_PER_CALL = 1.0  # of training between two checks of the clock and of signals


class Interrupted(ReportedError):
    """SIGINT or SIGTERM came, to this worker or to another one; the state is saved."""

    def __init__(self, number: int, where: str):
        super().__init__(f"Stopped by {signal.Signals(number).name}; the state is {where}. The same command resumes.")
        self.exit_code = 128 + number


@dataclasses.dataclass
class Loop:
    """A training run in a folder.

    Attributes:
        learner: what is trained, and on what.
        folder: the run folder; states go below `checkpoints/`. Of several workers, only the chief saves states.
        num_steps: updates in all, with those done before a resumption.
        seed: of the run; data and dropout draw from it.
        save_every, log_every, evaluate_every: in steps; 0 for never (a state is always saved at the end).
        evaluate: gives means on held-out data, or on other data that `evaluation` names.
        evaluation: what the line of an evaluation begins with.
        select: gives, of the means of an evaluation, what is highest for the best state, which is kept; None if there
            is no best.
        on_data_loss: called with a stream's name and position when one of its records cannot be read; gives the batches and
            the position to go on with. By default the error is raised.
        max_skipped: so many steps in a row whose loss or gradients are not finite end the run, as do ten times as many in
            all.
        patience: training ends after so many evaluations in a row without a better state; 0 for never. It is read off the state, so a
            resumed run ends at the same step.
        on_best: called when `select` gives more than ever before.
        watch: logs norms, profiles and predictions on the way.
        keep: how many of the newest states are kept.
        batches: {name of a stream: what is read}, those of the learner until a damaged shard is left out.
    """

    learner: Learner
    folder: str
    num_steps: int
    seed: int
    save_every: int = 1000
    log_every: int = 100
    evaluate_every: int = 0
    evaluate: Callable[[], dict[str, float]] | None = None
    evaluation: str = "evaluation"
    select: Callable[[dict[str, float]], float] | None = None
    patience: int = 0
    on_best: Callable[[], None] = lambda: None
    on_data_loss: Callable[[str, Position], tuple[Batches, Position]] | None = None
    max_skipped: int = 20
    watch: Watch = dataclasses.field(default_factory=Watch)
    keep: int = 2

    def run(self, state: State) -> State:
        """Trains from `state` to `num_steps`, or until patience is at its end, and saves the last state.

        Raises:
            Interrupted: a signal came; the state is saved.
            NonFiniteError: too many steps had a loss or gradients that are not finite.
        """
        self.workers = Workers(self.learner.strategy)
        self.log = RunLog(self.folder, state.step)
        self.signal, self.skipped, self.skipped_in_row = 0, 0, 0
        self.batches = {name: stream.batches for name, stream in self.learner.streams.items()}
        self.means: dict[str, float] | None = None  # of the last evaluation
        self.best_means: dict[str, float] | None = None  # of that of the best state, unless it was before a resumption
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        iterators: dict[str, Any] = {}
        try:
            with self.watch.watching(self.learner, self.log, self.folder), steps_bar(state.step, self.num_steps) as bar:
                self.bar = bar
                return self._run(state, iterators)
        finally:
            # The end of a distributed iterator waits for a thread of tf.data's autotuning, which may sleep for half a minute. A daemon
            # thread would be ended by the interpreter's exit inside of TensorFlow's destructor, which aborts the process.
            threading.Thread(target=iterators.clear).start()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number, frame):
        if self.signal:  # the second time the user means it
            raise KeyboardInterrupt
        self.signal = number

    def _run(self, state: State, iterators: dict) -> State:
        for name in self.batches:
            state = self._read_by_these(name, state)
        iterators |= {name: self._iterator(name, state) for name in self.batches}
        window, per_call = _Window(), 1
        saved = state.step or None
        while state.step < self.num_steps:
            stop, stale, count = self._agree(min(per_call, self._steps_to_event(state.step)), self._is_stale(state))
            if stale:
                print_status(
                    f"Nothing better in {self.patience} evaluation(s): training ends at step {state.step} of {self.num_steps}."
                )
                if state.step != saved:
                    self._save(state)
                break
            if stop:
                raise Interrupted(stop, self._save(state) if state.step != saved else self._where(state))
            self.watch.before(state.step)
            self.learner.renewal.before(state.step)
            clock, processor = time.monotonic(), time.process_time()
            try:
                before = dict(self.learner.steps_of)
                totals, waited = self.learner.train(iterators, tf.constant(count))
            except tf.errors.DataLossError:
                if not self.on_data_loss or self.workers.count > 1:  # the others have gone on already
                    raise
                name, state = self.learner.reading, self._after(state, before)
                self.batches[name], position = self.on_data_loss(name, state.at(name))
                state = state.with_position(name, position)
                self.log.note("lost", state.step, {"shards": list(position.lost)})
                iterators[name] = self._iterator(name, state)
                continue
            seconds, processor = time.monotonic() - clock, time.process_time() - processor
            state = self._after(state, before)
            if window.traced:
                per_call = max(1, min(2 * per_call, round(SECONDS_PER_CALL * count / seconds)))
            window.add(totals.numpy(), float(waited), seconds, processor, count)
            self._check(state, totals.numpy())
            self.watch.after(state.step)
            self.bar.update(count)
            last = state.step == self.num_steps
            if _due(state.step, self.log_every) or last:
                self._report(state, window)
                window = _Window(traced=True)
            if self.workers.is_chief and self.evaluate and (_due(state.step, self.evaluate_every) or last):
                state = self._evaluate(state, self.evaluate)
            due = _due(state.step, self.save_every) or state.step == state.best_step
            due &= not self.skipped_in_row  # or good states would have to go for it
            if due or last:
                self._save(state)
                saved = state.step
        return state

    def _agree(self, count: int, stale: bool) -> tuple[int, bool, int]:
        """Returns the signal that came to any worker, or 0, whether the chief's patience is at its end, and how many steps the
        next call makes: the same for all."""
        rows = self.workers.gather(self.signal, int(stale), count)
        return int(rows[:, 0].max()), bool(rows[:, 1].max()), int(rows[0, 2])

    def _is_stale(self, state: State) -> bool:
        """Returns whether as many evaluations as patience allows have passed since the best one."""
        waited = state.step - state.best_step if state.best_step is not None else 0
        return bool(self.patience) and waited >= self.patience * self.evaluate_every

    def _save(self, state: State) -> str:
        """Writes the state, which is the chief's task; says where it is."""
        if self.workers.is_chief:
            checkpoints.save(os.path.join(self.folder, "checkpoints"), self.learner, state, self.keep)
        return self._where(state)

    def _where(self, state: State) -> str:
        if not self.workers.is_chief:
            return f"saved by the chief at step {state.step}"
        return f"in {checkpoints.path_of(os.path.join(self.folder, 'checkpoints'), state.step)}"

    def _after(self, state: State, before: dict[str, int]) -> State:
        """Returns the state behind the steps that the learner has done since it counted `before`."""
        for name, batches in self.batches.items():
            steps, position = self.learner.steps_of[name] - before[name], state.at(name)
            cursors = position.cursors
            if steps and batches.grouping:
                cursor = self.learner.passes[name].cursor.numpy().tolist()
                cursors = tuple(map(tuple, self.workers.gather(*cursor).tolist()))
            if steps:
                consumed = position.consumed + steps * batches.batch_size
                state = state.with_position(name, dataclasses.replace(position, consumed=consumed, cursors=cursors))
                state = dataclasses.replace(state, step=state.step + steps)
        return state

    def _read_by_these(self, name: str, state: State) -> State:
        """Returns the state from which these machines read a stream."""
        position, hosts = state.at(name), self.workers.count
        if position.hosts != hosts:
            if position.consumed:
                print_status(
                    f"Read by {hosts} machine(s) instead of {position.hosts}: reading goes on with the next epoch."
                )
            position = position.read_by(hosts, self.batches[name].source.num_examples)
        batches = self.batches[name]
        grouped = batches.grouping.described(batches.batch_size) if batches.grouping else None
        if position.cursors and position.grouped not in (None, grouped):
            print_status("Batches are grouped otherwise than before: reading goes on with the next epoch.")
            position = position.without(position.lost, batches.source.num_examples)
        position = dataclasses.replace(position, grouped=grouped)
        if position.lost:
            self.log.note("lost", state.step, {"shards": list(position.lost)})
        return state.with_position(name, position)

    def _iterator(self, name: str, state: State):
        strategy, batches, position = self.learner.strategy, self.batches[name], state.at(name)
        per_replica = batches.batch_size * self.learner.batches_at_once // strategy.num_replicas_in_sync
        where = {"per_batch": per_replica, "first_batch": position.consumed // batches.batch_size}
        where |= {"decoded": not self.learner.reads_codes}

        def host_dataset(context):
            host, hosts = context.input_pipeline_id, context.num_input_pipelines
            return batches.training(**position.reading(host), host=host, num_hosts=hosts, **where)

        return iter(strategy.distribute_datasets_from_function(host_dataset))

    def _steps_to_event(self, step: int) -> int:
        intervals = [n for n in (self.save_every, self.log_every, self.evaluate and self.evaluate_every) if n]
        return min(
            [
                self.watch.next_event(step, self.num_steps) - step,
                *(n - step % n for n in intervals),
                *self.learner.renewal.steps_to_next(step),
            ]
        )

    def _report(self, state: State, window: "_Window") -> None:
        means = self.learner.means(window.totals)
        counted = self.learner.count_units(window.totals)
        per_second = window.timed / window.steps / max(window.seconds, 1e-9)  # 0 where only the first call was made
        speeds = {f"{unit}_per_second": pair[1] * per_second for unit, pair in counted.items()}
        speeds |= {f"real_{unit}_per_second": pair[0] * per_second for unit, pair in counted.items()}
        rates = {
            "learning_rate": float(self.learner.optimizer.learning_rate),
            **self.learner.report(),
            **self.watch.rates(next(iter(speeds.values()))),
            **speeds,
            "data_wait": window.waited / max(window.seconds, 1e-9),
            "step_seconds": window.seconds / max(window.timed, 1),
            "step_processor_seconds": window.processor / max(window.timed, 1),
            "memory_gib": memory_gib(),
            "eta_seconds": (self.num_steps - state.step) * window.seconds / max(window.timed, 1),
        }
        print_status(line(state.step, self.num_steps, means, self.learner.loss_names, rates, next(iter(counted))))
        self.log.write("train", state.step, {**means, **{k: float(v) for k, v in rates.items()}})
        self.watch.on_log(state.step, means)

    def _check(self, state: State, totals: np.ndarray) -> None:
        """Logs warnings about the last steps; raises a NonFiniteError where too many were skipped."""
        guard = self.learner.guard
        for warning in guard.warnings(self.folder):
            print_status(warning)
            self.log.note("warning", state.step, {"text": warning})
        self.skipped += self.learner.count_skipped(totals)
        self.skipped_in_row = guard.skipped_in_row
        # The weights of a state may be the cause of what is skipped from then on.
        saved = checkpoints.complete(os.path.join(self.folder, "checkpoints"))
        good = [path for path in saved if checkpoints.step_of(path) < state.step - self.skipped_in_row]
        evidence = os.path.join(self.folder, FOLDER)
        check_skipped(self.skipped_in_row, self.skipped, self.max_skipped, evidence, good)

    def _evaluate(self, state: State, evaluate: Callable[[], dict[str, float]]) -> State:
        means = self.means = evaluate()
        shown = scores(means, self.learner.loss_names).items()
        print_status(
            f"{self.evaluation} at step {state.step} · " + " · ".join(f"{name} {value:.4f}" for name, value in shown)
        )
        self.log.write("evaluation", state.step, means)
        if (
            self.learner.average
            and _due(state.step, self.evaluate_every)
            and self.learner.average.observe(means["loss"])
        ):
            print_status(f"Evaluations get no better: the weights are averaged from step {state.step} on.")
        self.watch.on_evaluation(state.step)
        if self.select is None:
            return state
        value = self.select(means)
        if state.best is not None and not value > (-math.inf if math.isnan(state.best) else state.best):
            return state
        self.best_means = means
        self.on_best()
        return dataclasses.replace(state, best=value, best_step=state.step)


def _due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0


class _Window:
    """Sums between two lines of the log; the call that traces the graph is left out of the speeds."""

    def __init__(self, traced: bool = False):
        self.traced = traced
        self.totals: float | np.ndarray = 0.0
        self.steps = 0
        self.waited, self.seconds, self.processor, self.timed = 0.0, 0.0, 0.0, 0  # of the calls that count for speeds

    def add(self, totals: np.ndarray, waited: float, seconds: float, processor: float, steps: int) -> None:
        self.totals = self.totals + totals
        self.steps += steps
        if self.traced:
            self.waited, self.seconds, self.timed = self.waited + waited, self.seconds + seconds, self.timed + steps
            self.processor += processor
        self.traced = True
