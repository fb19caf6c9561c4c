"""Where a run writes what happens: JSON lines and TensorBoard events in its folder."""

import json
import os
import time

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
        events = os.path.join(folder, "tensorboard")
        check_own(events)
        self.writer = tf.summary.create_file_writer(events)

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
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{kind}/{name}", value)
        self.writer.flush()

    def histograms(self, step: int, numbers: dict[str, np.ndarray]) -> None:
        """Adds histograms of numbers, to TensorBoard only.

        They are counted here: `tf.summary.histogram` would take 240 bytes for each number.
        """
        with self.writer.as_default(step=step):
            for name, values in numbers.items():
                counts, edges = np.histogram(values, NUM_BUCKETS)
                buckets = np.stack([edges[:-1], edges[1:], counts], axis=1).astype(np.float64)  # (30, 3)
                tf.summary.write(name, buckets, metadata=create_summary_metadata(display_name=None, description=None))
        self.writer.flush()

    def samples(self, step: int, examples: list[dict]) -> None:
        """Adds predictions of some examples; TensorBoard shows them as text."""
        self.note("samples", step, {"examples": examples})
        with self.writer.as_default(step=step):
            tf.summary.text("samples", "\n\n".join(as_text(example) for example in examples))
        self.writer.flush()


def memory_gib() -> float:
    """Returns memory in use: of the first GPU where there is one, else of this process."""
    if tf.config.list_logical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["current"] / 2**30
    return psutil.Process().memory_info().rss / 2**30
