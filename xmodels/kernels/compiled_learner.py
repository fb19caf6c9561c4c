"""A learner whose steps are one function compiled by Numba."""

import contextlib
import ctypes
import importlib.util
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xmodels.training.step.first_batch import check_values
from xmodels.training.step.learner import Learner

Batch = Mapping[str, np.ndarray]


class Tables:
    """The memory of variables, which compiled steps change.

    Args:
        variables: Keras variables of float32, by name.
    """

    def __init__(self, variables: Mapping[str, Any]):
        self.variables = dict(variables)
        self.addresses: dict[str, int] = {}

    @contextlib.contextmanager
    def arrays(self) -> Iterator[dict[str, np.ndarray]]:
        """Gives arrays that share the memory of the variables, for as long as the context lasts."""
        held = {name: in_place(each.value, self.addresses.get(name)) for name, each in self.variables.items()}
        self.addresses = {name: address for name, (_, _, address) in held.items()}
        yield {name: array for name, (_, array, _) in held.items()}


class CompiledLearner(Learner):
    """Does what `Learner` does, to rounding, for gradient descent on one device without anything that changes gradients.

    Its log has no norms of gradients, and no warnings of sudden losses. Subclasses make `compiled` in `__post_init__`: an object with
    `tables`, which are `Tables`, `run` and `counts`.
    """

    compiled: Any

    def __post_init__(self):
        super().__post_init__()
        ((self.name, stream),) = self.streams.items()
        self.batches, self.batch_size = stream.batches, stream.batches.batch_size
        self.threads = min(num_threads(), self.batch_size)
        self.is_checked, self.in_row = False, 0
        self._rates: Any = None
        self.read_from: Any = None  # the iterator of which `waiting` has batches that were read, but not learnt
        self.waiting: Batch = {}
        self.gradient_norms.assign(tf.fill(self.gradient_norms.shape, np.float32("nan")))  # not computed

    def train(self, iterators, num_steps):
        self.reading = self.name
        stream, count, waited, first = self.passes[self.name], int(num_steps), 0.0, self.step
        iterator = iterators[self.name] if isinstance(iterators, Mapping) else iterators
        totals, rates, done = np.zeros((len(stream.names) + 1, 2)), self.rates(count), 0
        try:
            with self.compiled.tables.arrays() as weights:
                while done < count:
                    asked = time.monotonic()
                    batches, steps = self.next_batches(iterator, count - done)
                    waited += time.monotonic() - asked
                    if (cursor := batches.pop("cursor", None)) is not None:
                        stream.cursor.assign(cursor[-1])
                    losses = self.compiled.run(weights, batches, rates[done : done + steps], first + done)
                    fine = np.isfinite(losses).all(axis=(1, 2))
                    totals[: losses.shape[1]] += losses[fine].sum(axis=0)
                    totals[losses.shape[1] : -1] += self.compiled.counts(batches, steps)[fine].sum(axis=0)
                    totals[-1] += [steps - fine.sum(), steps]
                    for step in range(steps):
                        if self.in_row or not fine[step]:
                            rows = slice(step * self.batch_size, (step + 1) * self.batch_size)
                            batch = {name: value[rows] for name, value in batches.items()}
                            self.report_fault(stream, batch, first + done + step, not fine[step])
                    done += steps
        finally:
            self.steps_of[self.name] += done
            self.optimizer.iterations.assign(first + done)
        return tf.constant(totals), tf.constant(waited, tf.float64)

    def next_batches(self, iterator, most: int) -> tuple[dict[str, np.ndarray], int]:
        """Returns the features of the next batches as arrays, one behind the other, and of how many; at most `most`."""
        if iterator is not self.read_from:
            self.read_from, self.waiting = iterator, {}
        if not self.waiting:
            self.waiting = {name: value.numpy() for name, value in next(iterator).items()}
            if not self.is_checked:
                features = {name: value for name, value in self.waiting.items() if name != "cursor"}
                check_values(features, self.backbone, self.first_objective)
                self.is_checked = True
        steps = min(most, len(next(iter(self.waiting.values()))) // self.batch_size)
        rows, waiting = steps * self.batch_size, self.waiting
        self.waiting = {name: value[rows:] for name, value in waiting.items() if len(value) > rows}
        return {name: value[:rows] for name, value in waiting.items()}, steps

    def rates(self, count: int) -> np.ndarray:
        """Returns the learning rates of the next steps, float32 (count,)."""
        if self._rates is None:
            rate = self.optimizer._learning_rate
            schedule = rate if callable(rate) else lambda step: tf.constant(rate.value)
            spec = tf.TensorSpec([None], tf.int64)
            self._rates = tf.function(lambda steps: tf.map_fn(schedule, steps, fn_output_signature=tf.float32), [spec])
        return self._rates(tf.range(self.step, self.step + count, dtype=tf.int64)).numpy()

    def report_fault(self, stream, batch: Batch, step: int, is_fault: bool) -> None:
        """Tells the guard of a step whose loss is not finite, which changed nothing; and of the first good one behind it."""
        self.optimizer.iterations.assign(step)
        self.in_row = self.in_row + 1 if is_fault else 0
        unknown = tf.constant(np.nan if is_fault else 0.0, tf.float32)
        sums = tf.concat([tf.fill((len(stream.names), 1), unknown), tf.ones((len(stream.names), 1))], axis=1)
        features = {name: tf.constant(value) for name, value in batch.items()}
        if self.reads_codes:
            features = self.batches.decode(features)
        self.guard.observe(
            stream, features, sums, self.gradient_norms, tf.constant(not is_fault), tf.constant(is_fault)
        )


def num_threads() -> int:
    """Returns how many threads can share a step: as many as there are processors, unless threads are told to sleep while they wait,
    which takes longer than their share of a step."""
    from numba import config

    sleeps = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
    has_openmp = importlib.util.find_spec("numba.np.ufunc.omppool") is not None
    return config.NUMBA_NUM_THREADS if has_openmp and not sleeps else 1


def is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def needs(
    strategy, backbone, objective, optimization, clip_norm: float, memory, log_norms_steps: int
) -> dict[str, bool]:
    """Returns what keeps steps from being those of a `CompiledLearner`, and for each whether it is absent.

    Args:
        optimization: has rates by depth.
        memory: of `Learner`.
        log_norms_steps: how often norms of gradients are logged; 0 for never.
    """
    return {
        "there are several devices, or a GPU or TPU": strategy.num_replicas_in_sync == 1
        and all("CPU" in device for device in strategy.extended.worker_devices),
        "layers have rates of their own": optimization.layerwise_lr_decay == 1.0 and not optimization.thaw_steps,
        "gradients are clipped": not clip_norm,
        "steps are done in 16 bits": backbone.compute_dtype == "float32",
        "norms of gradients are logged": not log_norms_steps,
        "batches are computed in parts": memory.micro_batches == 1,
        "weights are averaged": not memory.ema_decay and not memory.nonmonotonic_interval,
        "some weights do not learn": all(v.trainable for v in (*backbone.variables, *objective.variables)),
    }


def first_reason(needs: Mapping[str, bool]) -> str | None:
    return next((reason for reason, fine in needs.items() if not fine), None)


def in_place(variable, address: int | None) -> tuple[object, np.ndarray, int]:
    """Returns a variable's tensor, which must be kept for as long as the array is used; an array in the same memory; and its address.

    What is written into it is written into the variable: a table of a million words is not copied to and fro. Memory at another
    address than that of the last time may be an array's from which the variable was set, so it is copied once.
    """
    tensor = variable.read_value()
    if address_of(tensor) != address:
        variable.assign(tf.raw_ops.DeepCopy(x=tensor))
        tensor = variable.read_value()
    found = address_of(tensor)
    array = np.ctypeslib.as_array(ctypes.cast(found, ctypes.POINTER(ctypes.c_float)), shape=tuple(variable.shape))
    return tensor, array, found


def address_of(tensor) -> int:
    return np.frombuffer(memoryview(tensor), np.float32).__array_interface__["data"][0]
