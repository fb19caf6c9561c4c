"""What the processes of one training job tell each other, and what becomes of them when one of them ends.

Where a job has one process, everything here is free of charge: its values are those of all.
"""

import contextlib
import json
import re
import tempfile

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DeviceError, ReportedError

SUM = tf.distribute.ReduceOp.SUM
LOST = (  # what TensorFlow raises, in each worker that is left, once a collective operation cannot be completed
    tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError,
    tf.errors.InternalError, tf.errors.FailedPreconditionError, tf.errors.UnknownError,
)  # fmt: skip


class ChiefError(ReportedError):
    """The chief met an error that ends all workers alike."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


class Workers:
    """The processes that share a strategy.

    Attributes:
        count: how many there are.
        index: which of them this is; the chief, which alone writes the run folder, is 0.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        resolver = strategy.cluster_resolver
        many = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and resolver is not None
        jobs = resolver.cluster_spec().as_dict() if many else {}
        self.count = max(1, sum(len(hosts) for hosts in jobs.values()))
        self.index = 0
        if self.count > 1:
            self.index = resolver.task_id + (len(jobs.get("chief", [])) if resolver.task_type == "worker" else 0)
        self._local = strategy.num_replicas_in_sync // self.count

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    def folder(self, run_folder: str) -> str:
        """Returns the run folder for the chief; for others a folder of their own, which is removed when they end."""
        if self.is_chief:
            return run_folder
        self._scratch = tempfile.TemporaryDirectory(prefix="xmodels-worker-")
        return self._scratch.name

    def gather(self, *values: int) -> np.ndarray:
        """Returns the whole numbers of every worker: int64 (count, n). All must call it, as often and with as many."""
        mine = np.array([values], np.int64)
        if self.count == 1:
            return mine
        rows: np.ndarray = np.zeros((self.count, len(values)), np.int64)
        rows[self.index] = mine
        return self._sum(rows, lambda replica: replica % self._local == 0)

    def share(self, variables) -> None:
        """Gives the variables of every worker the values that the chief's have."""
        if self.count == 1:
            return
        for variable in variables:
            value = np.asarray(variable.numpy())
            wide = value if value.dtype.kind == "f" else value.astype(np.int64)
            variable.assign(self._sum(wide, lambda replica: replica == 0).astype(value.dtype))

    def from_chief(self, work):
        """Returns what `work()` gives on the chief, on every worker; it must be such as JSON can hold.

        Raises:
            ReportedError: of the chief, which ends all workers with the same message and exit code.
        """
        if self.count == 1:
            return work()
        failure, message = None, b""
        if self.is_chief:
            try:
                message = json.dumps({"value": work()}).encode()
            except ReportedError as error:
                failure = error
                message = json.dumps({"error": str(error), "exit_code": error.exit_code}).encode()
        length = int(self.gather(len(message))[0, 0])
        sent = np.frombuffer(message.ljust(length), np.uint8).astype(np.int64)
        heard = json.loads(self._sum(sent, lambda replica: replica == 0).astype(np.uint8).tobytes())
        if failure:
            raise failure
        if "error" in heard:
            raise ChiefError(heard["error"], heard["exit_code"])
        return heard["value"]

    def _sum(self, array: np.ndarray, counts) -> np.ndarray:
        """Returns the sum over all replicas for which `counts(replica)` holds."""

        def value(context):
            return tf.constant(array if counts(context.replica_id_in_sync_group) else np.zeros_like(array))

        return self.strategy.reduce(
            SUM, self.strategy.experimental_distribute_values_from_function(value), axis=None
        ).numpy()

    @contextlib.contextmanager
    def together(self):
        """Turns TensorFlow's error about a worker that is gone into one line.

        Raises:
            DeviceError: another worker has ended; TensorFlow notices within some ten seconds.
        """
        try:
            yield
        except LOST as error:
            if self.count == 1 or not _is_about_workers(error):
                raise
            raise DeviceError(
                f"Worker {self.index} of {self.count} ends, since {_cause(error)}. See what that one said last; then start "
                "the same command on all machines again: it goes on from the last saved state."
            ) from None


def _is_about_workers(error: tf.errors.OpError) -> bool:
    return any(word in error.message for word in ("ollective", "remote target", "unhealthy", "oordination", "ocket"))


def _cause(error: tf.errors.OpError) -> str:
    """Returns who is gone, as far as TensorFlow's long message tells."""
    if named := re.search(r"unhealthy.*?/job:(\w+)/replica:\d+/task:(\d+)", error.message, re.DOTALL):
        return f"{named[1]} {named[2]} has ended or cannot be reached"
    if "to coordination service" in error.message:
        return "the chief has ended or cannot be reached"
    return "another worker has ended or cannot be reached"
