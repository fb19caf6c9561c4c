"""The forward and backward pass of one stream on one replica."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from data_pipelines.ops.seeds import fold
from xmodels.layers.compilation import compiled
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.rematerialization import rematerialized
from xmodels.layers.wide_products import transposed_first
from xmodels.models.backbone import named_weights
from xmodels.training.devices import processor
from xmodels.training.devices.distribution import is_processor
from xmodels.training.step.accumulation import accumulate
from xmodels.training.step.carried import Carried
from xmodels.training.step.first_batch import check_lengths
from xmodels.training.step.graphs import function_of
from xmodels.training.step.precision import ONCE
from xmodels.training.step.sparse import Table, is_sparse, no_gradient
from xmodels.training.step.streams import Stream


@functools.cache
def compile_once(function: Callable) -> Callable:
    """Returns a function of a tensor that XLA compiles for each shape, once for all places where it is called."""
    return tf.function(function, jit_compile=True, autograph=False)


class StreamPass:
    """The compiled forward and backward pass of one stream of a learner.

    Attributes:
        loss_names: names of the losses of the objective, and of the costs that layers add.
        names: names of the (sum, weight) pairs that a step returns: losses, metrics, and the units of `Objective.counts`.
        units: names of the counted units, such as `tokens`; the first one measures speed.
        variables: the variables that a step updates.
        places: their indices among the learner's variables.
        carried: the memory of the network between steps, if it has one and batches continue one another; or None.
        cursor: the position in the data, from batches that have one: epoch, window, groups done. Exact even if a step fails.
    """

    def __init__(self, stream: Stream, backbone, memory, seed: int, jit_compile: bool, strategy):
        self.objective, self.backbone = stream.objective, backbone
        self.memory, self.seed, self.jit_compile = memory, seed, jit_compile
        # Where XLA compiles the whole pass, or a GPU or TPU computes it, these ways of processors are left out.
        self.has_ways_of_processors = not jit_compile and is_processor(strategy)
        batch = stream.batches.zeros()
        check_lengths(batch, backbone)
        row = {name: x[:1] for name, x in batch.items()}
        _, losses, metrics = self.objective.run(backbone, row)
        self.units = list(self.objective.counts(row))
        self.loss_names, self.names = list(losses), [*losses, *metrics, *(f"real_{unit}" for unit in self.units)]
        self.cursor = tf.Variable([0, 0, 0], dtype=tf.int64, aggregation=ONCE)
        remembers = backbone.carries_memory and stream.batches.continues
        rows = len(next(iter(batch.values())))
        self.carried = Carried(backbone, rows, memory.micro_batches) if remembers else None

    def build(self, variables: list) -> None:
        """Compiles the pass for those of a learner's variables that it trains."""
        own = {id(v) for v in self.backbone.trainable_variables + self.objective.trainable_variables}
        self.places = np.array([i for i, variable in enumerate(variables) if id(variable) in own], np.int32)
        self.variables = [variables[i] for i in self.places]
        tables = {
            id(weight)
            for part in (self.backbone, self.objective)
            for name, weight in named_weights(part).items()
            if name in part.sparse_tables
        }
        self.sparse = [id(variable) in tables for variable in self.variables]
        self.gradients = function_of(
            self, self.compute_gradients, jit_compile=self.jit_compile or None, autograph=False
        )
        self.evaluate_batch = function_of(self, self._evaluate_batch, autograph=False)

    def local_gradients(self, batch, inverse, replica, iterations):
        """Computes this replica's share of a batch: gradients and (sum, weight) pairs, summed over micro-batches, and the new memory.

        Args:
            batch: the features of this replica.
            inverse: the factor of each loss.
            replica, iterations: with the seed they determine the dropout masks.
        """
        step_seed = fold(fold(tf.constant(self.seed, tf.uint64), iterations), replica)
        parts = self.memory.micro_batches
        if parts == 1:
            return self.gradients(batch, inverse, tf.bitcast(step_seed, tf.uint32))

        def compute(piece, number):
            gradients, sums, _ = self.gradients(piece, inverse, tf.bitcast(fold(step_seed, number), tf.uint32))
            return [*gradients, sums]

        like = [
            Table(tuple(v.shape), v.dtype) if sparse else tf.TensorSpec(v.shape, v.dtype)
            for v, sparse in zip(self.variables, self.sparse, strict=True)
        ]
        *gradients, sums = accumulate(compute, batch, parts, [*like, tf.TensorSpec((len(self.names), 2))])
        return gradients, sums, {}

    def compute_gradients(self, batch, inverse, seed):
        """Returns the gradients of a micro-batch's share of the loss, the stacked (sum, weight) pairs, and the new memory."""
        with (
            tf.GradientTape() as tape,
            dropout_seed(seed),
            rematerialized(self.memory.rematerialize),
            transposed_first(self.has_ways_of_processors and processor.is_narrow()),
            compiled(compile_once if self.has_ways_of_processors else None),
        ):
            outputs, losses, metrics = self.objective.run(self.backbone, batch, training=True)
            loss = tf.add_n([losses[name][0] * inverse[i] for i, name in enumerate(self.loss_names)])
        gradients = tape.gradient(loss, [v.value for v in self.variables])
        gradients = [self._finish_gradient(*each) for each in zip(gradients, self.variables, self.sparse, strict=True)]
        return gradients, self._stack(losses | metrics, batch), self._carried_states(outputs)

    def _finish_gradient(self, gradient, variable, sparse: bool):
        """Returns a gradient as a dense tensor, or for a table that is declared sparse as the rows of the batch."""
        if gradient is None:
            return no_gradient(variable.value, sparse)
        if is_sparse(gradient) and sparse:
            return tf.IndexedSlices(
                gradient.values, tf.cast(gradient.indices, tf.int32), tf.constant(list(variable.shape), tf.int32)
            )
        return tf.convert_to_tensor(gradient)

    def loss_weights(self, batch):
        """Returns the weight of each loss in this replica's batch, float32 (losses,).

        The weights depend only on the batch, so TensorFlow prunes the forward pass that is traced here.
        """
        _, losses, _ = self.objective.run(self.backbone, batch)
        return tf.stack([tf.cast(losses[name][1], tf.float32) for name in self.loss_names])

    def _stack(self, pairs, batch):
        """Stacks the (sum, weight) pairs of losses, metrics and counts: float32 (names, 2)."""
        pairs = [*pairs.values(), *self.objective.counts(batch).values()]
        return tf.stack([tf.stack([tf.cast(x, tf.float32) for x in pair]) for pair in pairs])

    def _evaluate_batch(self, batch, read: Callable | None = None):
        outputs, losses, metrics = self.objective.run(self.backbone, batch, training=False)
        found = self._stack(losses | metrics, batch), self._carried_states(outputs)
        return found if read is None else (*found, read(outputs))

    def _carried_states(self, outputs) -> dict:
        return {name: outputs[name] for name in self.carried.memory} if self.carried else {}

    def evaluate_and(self, read: Callable) -> Callable:
        """Returns an `evaluate_batch` that also returns `read(outputs)`, of the outputs of the objective."""
        return function_of(self, functools.partial(self._evaluate_batch, read=read), autograph=False)

    def evaluate(self, batches, evaluate_batch: Callable | None = None) -> np.ndarray:
        """Returns (sum, weight) for each of `names` over all batches of a dataset: float32 (names, 2).

        Args:
            evaluate_batch: in place of the pass's own.
        """
        evaluate_batch = evaluate_batch or self.evaluate_batch
        totals = tf.zeros((len(self.names), 2))
        past: dict[str, Any] = {}
        for batch in batches:
            if self.carried and not past:  # the rows of a batch continue those of the previous one
                past = self.backbone.initial_memory(len(next(iter(batch.values()))))
            sums, past = evaluate_batch({**batch, **past})
            totals += sums
        return totals.numpy()
