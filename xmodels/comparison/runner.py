"""Runs the stages of a comparison, some side by side, each as a process of its own. What is done is never done again."""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence

from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.lock import check_free
from xmodels.comparison.planning import Agenda
from xmodels.comparison.stages import BASELINE, FINETUNE, OUTPUT, RESUMABLE, Stage
from xmodels.comparison.workspace import DONE, FAILED, Workspace
from xmodels.processes.commands import Command, Commands
from xmodels.training.watching.progress import duration, print_status

PATIENCE = 120.0  # seconds for a command of a comparison that was killed to save its state and go
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


class Stopped(ReportedError):
    """A signal came to the comparison; its commands were told to save their states."""

    def __init__(self, number: int):
        super().__init__(f"Stopped by {signal.Signals(number).name}. The same command resumes.")
        self.exit_code = 128 + number


@dataclasses.dataclass
class Process:
    """A stage that runs."""

    stage: Stage
    command: Command


@dataclasses.dataclass
class Runner:
    """Runs whatever the agenda names until nothing is left to run.

    Attributes:
        agenda: asked anew whenever a stage is done.
        wanted: whether a stage is among those that were asked for.
        jobs: commands side by side; each gets its share of the processor cores.
    """

    workspace: Workspace
    agenda: Callable[[], Agenda]
    wanted: Callable[[Stage], bool]
    jobs: int
    fail_fast: bool = False
    running: list[Process] = dataclasses.field(default_factory=list)
    failures: list[Stage] = dataclasses.field(default_factory=list)
    warned: set[str] = dataclasses.field(default_factory=set)
    finished: int = 0
    progress: tuple[int, int] = (0, 0)  # stages that are done, and all that can be named by now
    commands: Commands = dataclasses.field(init=False)

    def __post_init__(self):
        self.commands = Commands(environment(self.jobs))

    def run(self) -> list[Stage]:
        """Returns the stages that failed.

        Raises:
            Stopped: SIGTERM or SIGINT came.
        """
        previous = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while True:
                while len(self.running) < self.jobs and (ready := self._ready()):
                    self._start(ready)
                if not self.running:
                    return self.failures
                self._wait()
        finally:
            for number in previous:
                signal.signal(number, signal.SIG_IGN)  # while the commands save their states
            self.commands.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _ready(self) -> Stage | None:
        if self.fail_fast and self.failures:
            return None
        busy = {process.stage for process in self.running}
        stages = [one for one in self.agenda().stages if self.wanted(one)]
        self.progress = sum(self.workspace.state(one) == DONE for one in stages), len(stages)
        for one in stages:
            if one in busy or self.workspace.state(one) in (DONE, FAILED):
                continue
            if all(self.workspace.state(each) == DONE for each in one.needs) and not self._is_locked(one):
                return one
        return None

    def _is_locked(self, one: Stage) -> bool:
        """Waits for a command of an earlier comparison that still works in this folder."""
        path = self.workspace.output(one)
        begun = time.monotonic()
        while one.kind in RESUMABLE and os.path.isdir(path):
            try:
                check_free(path, OUTPUT[one.kind])
                return False
            except UsageError:
                if time.monotonic() - begun > PATIENCE:
                    raise
                time.sleep(1.0)
        return False

    def _start(self, one: Stage) -> None:
        self.workspace.begin(one)
        command = self.workspace.command(one)
        if one.kind == BASELINE:
            values = self.workspace.values(one) | {OUTPUT[one.kind]: self.workspace.output(one)}
            program = ["-m", "xmodels.comparison.baselines", json.dumps(values)]
        else:
            program = ["-m", "launch", *command]
        self.running.append(Process(one, self.commands.start(program, self.workspace.log(one))))
        done, known = self.progress
        print_status(f"[{done + 1}/{known}] {one.name}\n    $ xmodels {shlex.join(command)}")

    def _wait(self) -> None:
        """Waits until one command has ended."""
        ended = self.commands.wait()
        process = next(each for each in self.running if each.command is ended)
        self.running.remove(process)
        self._finish(process.stage, ended)

    def _finish(self, one: Stage, command: Command) -> None:
        code, seconds = command.code, time.monotonic() - command.began
        if not code and not os.path.exists(self.workspace.output(one)):
            code = 1
        self.workspace.finish(one, code, seconds, command.processor_seconds)
        self.finished += 1
        if code:
            self.failures.append(one)
            print_status(
                f"    {one.name}: FAILED with {code} after {duration(seconds)}: {last_line(self.workspace.log(one))}"
            )
            return
        if one.kind == FINETUNE:  # several dozen of them would fill the disk; the network that is handed over stays
            shutil.rmtree(os.path.join(self.workspace.output(one), "checkpoints"), ignore_errors=True)
        print_status(f"    {one.name}: done in {duration(seconds)}{_summary(self.workspace, one)}")
        for warning in warnings_in(self.workspace.log(one)):
            if warning not in self.warned:
                print_status(f"    {warning}")
            self.warned.add(warning)


def _stop(number, frame):
    raise Stopped(number)


def _summary(workspace: Workspace, one: Stage) -> str:
    results = workspace.results(one) if one.kind in RESUMABLE else None
    shown = {n: v for n, v in (results or {}).items() if n in ("loss", "evaluation accuracy")}
    return "".join(f", {name} {value:.4f}" for name, value in shown.items())


def environment(jobs: int) -> dict[str, str]:
    """Returns that of a command: its share of the cores, so that commands side by side do not fight for them."""
    cores = max(1, len(os.sched_getaffinity(0)) // jobs) if hasattr(os, "sched_getaffinity") else 1
    return {**os.environ, **{name: os.environ.get(name, str(cores)) for name in THREADS}}


def last_line(path: str) -> str:
    """Returns what a log says last; nothing where it was deleted."""
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1][:300] if lines else ""


def warnings_in(path: str) -> list[str]:
    """Returns the warnings of a log, each once; none where it was deleted."""
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = (line.strip() for line in file)
        return list(dict.fromkeys(line for line in lines if line.startswith("Warning: ")))


def in_kinds(kinds: Sequence[str]) -> Callable[[Stage], bool]:
    """Returns whether a stage is of one of the kinds; none means all."""
    return lambda one: not kinds or one.kind in kinds
