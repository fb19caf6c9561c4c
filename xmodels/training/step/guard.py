"""Watches the steps of a learner for signs that something is wrong."""

import weakref

import numpy as np
import tensorflow as tf

from xmodels.training.step.first_batch import check_values
from xmodels.training.step.nonfinite import MOST_KEPT, Skipped
from xmodels.training.step.precision import ONCE
from xmodels.training.step.spikes import Spikes


class Guard:
    """Checks the first batch, keeps batches and norms of skipped steps, and warns of jumps of the loss.

    The methods of the first group are called in the graph of the step, those of the second between steps.

    Attributes:
        skipped_in_row: the number of consecutive steps, up to the last one, that were skipped.
    """

    def __init__(self, learner):
        self.learner = learner
        self.spikes = {each: Spikes() for each in learner.passes.values()}
        self.problem = None  # the error of the first batch
        self.kept: list[Skipped] = []  # not yet returned by `warnings`
        self.num_kept = 0
        self._unchecked = {
            each: tf.Variable(True, trainable=False, aggregation=ONCE) for each in learner.passes.values()
        }
        self._in_row = tf.Variable(0, trainable=False, aggregation=ONCE, dtype=tf.int64)

    # In the graph.

    def check(self, stream, batch) -> tf.Tensor:
        """Checks the first batch of a `StreamPass`; later ones are not checked. The step must wait for the result."""
        unchecked, kept_weakly = self._unchecked[stream], weakref.ref(stream)
        done = tf.cond(unchecked, lambda: self._on_host(Guard._check, batch, (kept_weakly,)), lambda: True)
        with tf.control_dependencies([done]):
            unchecked.assign(False)
        return done

    def observe(self, stream, batch, sums, norms, finite, fault) -> None:
        """Records a step.

        Args:
            stream: the `StreamPass` of the step.
            batch: that of all replicas.
            sums: float32 (names, 2), the (sum, weight) pairs of losses, metrics and counts.
            norms: float32 (V,), of the gradients, in the order of the learner's variables.
            finite: bool (), whether the update was applied.
            fault: bool (), whether it was skipped for another reason than a too large loss scale.
        """
        self._in_row.assign(tf.where(fault, self._in_row + 1, 0))
        losses = sums[: len(stream.loss_names)]
        losses = losses[:, 0] / tf.maximum(losses[:, 1], 1e-5)
        step = self.learner.optimizer.iterations.value
        tf.cond(
            fault, lambda: self._on_host(Guard._keep, batch, (stream.loss_names,), step, losses, norms), lambda: True
        )
        tf.cond(finite, lambda: self.spikes[stream].observe(tf.reduce_sum(losses), step), lambda: None)

    def _on_host(self, function, batch, fixed: tuple, *others) -> tf.Tensor:
        """Calls `function(guard, *fixed, batch of this host, *others)` in Python, with arrays.

        TensorFlow keeps the Python function for as long as the process lives, so it must not hold a reference to the network.
        """
        names, local = sorted(batch), self.learner.strategy.experimental_local_results
        whole, guard = [tf.concat(local(batch[name]), axis=0) for name in names], weakref.ref(self)

        def call(*arrays):
            function(guard(), *fixed, dict(zip(names, arrays, strict=False)), *arrays[len(names) :])
            return np.bool_(True)

        return tf.ensure_shape(tf.numpy_function(call, [*whole, *others], tf.bool), ())

    def _check(self, stream, batch):
        try:
            check_values(batch, self.learner.backbone, stream().objective)
        except ValueError as error:
            self.problem = error
            raise

    def _keep(self, loss_names, batch, step, losses, norms):
        self.num_kept += 1
        if self.num_kept <= MOST_KEPT:
            losses = dict(zip(loss_names, losses.tolist(), strict=True))
            norms = dict(zip(self.learner.trained_weights(), norms.tolist(), strict=True))
            self.kept.append(Skipped(int(step), batch, losses, norms))

    # In between steps.

    @property
    def skipped_in_row(self) -> int:
        return int(self._in_row.numpy())

    def warnings(self, folder: str) -> list[str]:
        """Returns warnings about the steps since the last call. Writes skipped steps below `folder`."""
        kept, self.kept = self.kept, []
        found = [text for spikes in self.spikes.values() if (text := spikes.take())]
        if kept:
            norms = {
                name: float(np.linalg.norm(w.numpy().astype(np.float64)))
                for name, w in self.learner.trained_weights().items()
            }
            found += [f"Warning: step {s.step} was skipped ({s.summary()}): {s.write(folder, norms)}" for s in kept]
        return found
