"""Where a run writes what happens: JSON lines and TensorBoard events in its folder."""

import contextlib
import json
import os
import time
from collections.abc import Iterator

import numpy as np
import psutil
import tensorflow as tf
from tensorboard.plugins.histogram.metadata import create_summary_metadata

from data_pipelines.files import append_to, check_own, whole_file
from xmodels.training.watching.progress import print_status, split_log
from xmodels.training.watching.samples import as_text

NUM_BUCKETS = 30  # of a histogram, as TensorFlow writes them


class RunLog:
    """Appends to log.jsonl and tensorboard/ of a run folder.

    Args:
        folder: the run folder.
        resumed_step: lines of later steps, written before a kill, are dropped, so each step stands once.
    """

    def __init__(self, folder: str, resumed_step: int = 0):
        self.path = os.path.join(folder, "log.jsonl")
        self._forget_after(resumed_step)
        self.events = os.path.join(folder, "tensorboard")
        check_own(self.events)
        self.writer = tf.summary.create_noop_writer()
        with self._events(resumed_step):
            self.writer = tf.summary.create_file_writer(self.events)
            self.writer.init()

    def _forget_after(self, step: int) -> None:
        entries, others = split_log(self.path)
        if others:
            damaged = f"{self.path}.damaged"
            with append_to(damaged, "ab") as file:
                file.writelines(others)
            print_status(f"{self.path}: {len(others):,} line(s) are not log entries; they were moved to {damaged}.")
        with whole_file(self.path, "w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries if entry["step"] <= step)

    def note(self, kind: str, step: int, values: dict) -> None:
        """Adds an entry that holds more than numbers, to log.jsonl only."""
        try:
            with append_to(self.path) as file:
                file.write(json.dumps({"kind": kind, "step": step, "time": time.time(), **values}) + "\n")
        except OSError as error:  # of a full disk, which names no file
            raise OSError(error.errno, error.strerror, self.path) from None

    def write(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Adds one entry, such as ("train", 100, {"loss": 6.8})."""
        self.note(kind, step, values)
        with self._events(step):
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", value)

    @contextlib.contextmanager
    def _events(self, step: int) -> Iterator[None]:
        """Yields while events of a step are written for TensorBoard. Where they cannot be, as on a full disk, a warning is printed
        and there are no further ones: all numbers stand in log.jsonl too."""
        try:
            with self.writer.as_default(step=step):
                yield
            self.writer.flush()
        except (tf.errors.OpError, OSError) as error:
            reason = (error.message if isinstance(error, tf.errors.OpError) else str(error)).rpartition("; ")[2]
            print_status(f"Warning: {self.events}: {reason:.200}. TensorBoard's files end here; {self.path} goes on.")
            self.writer = tf.summary.create_noop_writer()

    def histograms(self, step: int, numbers: dict[str, np.ndarray]) -> None:
        """Adds histograms of numbers, to TensorBoard only.

        They are counted here: `tf.summary.histogram` would take 240 bytes for each number.
        """
        with self._events(step):
            for name, values in numbers.items():
                counts, edges = np.histogram(values, NUM_BUCKETS)
                buckets = np.stack([edges[:-1], edges[1:], counts], axis=1).astype(np.float64)  # (30, 3)
                tf.summary.write(name, buckets, metadata=create_summary_metadata(display_name=None, description=None))

    def samples(self, step: int, examples: list[dict]) -> None:
        """Adds predictions of some examples; TensorBoard shows them as text."""
        self.note("samples", step, {"examples": examples})
        with self._events(step):
            tf.summary.text("samples", "\n\n".join(as_text(example) for example in examples))


def memory_gib() -> float:
    """Returns memory in use: of the first GPU where there is one, else of this process."""
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["current"] / 2**30
    return psutil.Process().memory_info().rss / 2**30
