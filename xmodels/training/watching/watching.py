"""What else a run tells: use of the machine's peak, norms of layers, a profile of some steps, predictions."""

import contextlib
import dataclasses
import math
import os
import re
from collections.abc import Callable

import keras
import tensorflow as tf

from data_pipelines.errors import UsageError
from xmodels.training.watching import flops
from xmodels.training.watching.layer_norms import LayerNorms
from xmodels.training.watching.peak import peak_flops
from xmodels.training.watching.progress import print_status
from xmodels.training.watching.run_log import RunLog


def profile_steps(text: str | None) -> tuple[int, int] | None:
    """Returns the first and last step of `--profile_steps=A,B`.

    Raises:
        UsageError: these are not two steps in order.
    """
    if not text:
        return None
    found = re.fullmatch(r"(\d+),(\d+)", text)
    first, last = map(int, found.groups()) if found else (0, 0)
    if not 0 < first <= last:
        raise UsageError(f"--profile_steps={text}: expected the first and the last step, such as 100,110.")
    return first, last


@dataclasses.dataclass
class Watch:
    """Looks at a run between two calls of the graph; the loop calls its methods.

    Attributes:
        flops_per_token: counts what training spends on a position; called once, at the first line of the log.
        peak: FLOPs a second that the devices can reach; 0 where nobody knows.
        log_norms_steps: steps between two looks at the norms of layers; 0 for never.
        profile: first and last step of a profile.
        sample: predicts some examples and gives them in the form of `runs.samples`.
        warns: gives, of a step and the means that were logged, what is to be said of them once, or None.
    """

    flops_per_token: Callable[[], float] | None = None
    peak: float = 0.0
    log_norms_steps: int = 0
    profile: tuple[int, int] | None = None
    sample: Callable[[], list[dict]] | None = None
    warns: Callable[[int, dict[str, float]], str | None] | None = None

    @contextlib.contextmanager
    def watching(self, learner, log: RunLog, folder: str):
        """Surrounds the whole run; ends a profile that is being taken, however the run ends."""
        self.learner, self.log, self.folder = learner, log, os.path.join(folder, "tensorboard")
        self.profiling, self.norms, self.flops = False, LayerNorms(learner), 0.0
        try:
            yield
        finally:
            self._end_profile()

    def next_event(self, step: int, num_steps: int) -> int:
        """Returns the next step after `step` at which it wants to look; `num_steps` if there is none.

        To see the update of a step, it looks before and after that step.
        """
        events = []
        if self.log_norms_steps:
            due = step + self.log_norms_steps - step % self.log_norms_steps
            events = [end for end in (due - 1, due) if end > step]
        events += [end for end in (self.profile[0] - 1, self.profile[1]) if end > step] if self.profile else []
        return min([num_steps, *events])

    def before(self, step: int) -> None:
        """Starts what is due before the steps that follow `step`."""
        if self.profile and self.profile[0] - 1 <= step < self.profile[1] and not self.profiling:
            tf.profiler.experimental.start(self.folder)
            self.profiling = True
        if self.log_norms_steps and (step + 1) % self.log_norms_steps == 0:
            self.norms.remember()

    def after(self, step: int) -> None:
        """Reports what is due when `step` is done."""
        if self.profiling and self.profile and step >= self.profile[1]:
            self._end_profile()
            print_status(f"Profile of steps {self.profile[0]} to {self.profile[1]}: {self.folder}/plugins/profile")
        if self.log_norms_steps and step % self.log_norms_steps == 0:
            report = self.norms.report()
            self.log.write("norms", step, report.norms)
            self.log.histograms(step, report.numbers)

    def _end_profile(self) -> None:
        if self.profiling:
            self.profiling = False
            try:
                tf.profiler.experimental.stop()
            except (tf.errors.OpError, OSError) as error:  # of a full disk, say
                print_status(f"Warning: {self.folder}: the profile could not be written ({str(error)[:200]}).")

    def rates(self, tokens_per_second: float) -> dict[str, float]:
        """Returns what joins a line of the log: the norm of the last step's gradient, if it is finite, and the share of the
        peak."""
        norm = float(tf.norm(self.learner.gradient_norms))
        rates = {"gradient_norm": norm} if math.isfinite(norm) else {}  # JSON knows no infinity
        if self.peak and self.flops_per_token:
            self.flops = self.flops or self.flops_per_token()
            rates["flops_per_token"] = self.flops
            rates["model_flops_utilisation"] = tokens_per_second * self.flops / self.peak
        return rates

    def on_log(self, step: int, means: dict[str, float]) -> None:
        """Warns, after a line of the log, where there is something to be said."""
        if self.warns and (text := self.warns(step, means)):
            self.warns = None
            print_status(text)
            self.log.note("warning", step, {"text": text})

    def on_evaluation(self, step: int) -> None:
        """Logs predictions after an evaluation."""
        if self.sample:
            self.log.samples(step, self.sample())


def watch(
    learner, batch: dict, folder: str, log_norms_steps: int = 0, profile: str | None = None,
    sample: Callable[[], list[dict]] | None = None,
    warns: Callable[[int, dict[str, float]], str | None] | None = None,
) -> Watch:  # fmt: skip
    """Returns the watch of a run: learns or reads the peak of the devices, and counts what a batch of this shape costs.

    That takes some seconds for large networks, so it waits until the first steps are done.
    """
    dtype = keras.config.dtype_policy().compute_dtype
    peak = peak_flops(learner.strategy, dtype, folder)
    return Watch(
        lambda: flops.of_learner(learner, batch),
        peak["flops_per_second"] if peak else 0.0,
        log_norms_steps, profile_steps(profile), sample, warns,
    )  # fmt: skip
