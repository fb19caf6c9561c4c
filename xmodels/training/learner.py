"""One training step for every strategy: global weights first, then sums, then clipping, then the update.

`Model.fit` of Keras 3 clips before it reduces and averages means of replicas, so it is wrong, or fails, under
`tf.distribute` (see BUILD_NOTES.md). Here replicas, and one day micro-batches, add up to the large batch exactly.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.ops.seeds import fold
from xmodels.layers.dropout import dropout_seed
from xmodels.models.backbone import Backbone, named_weights
from xmodels.objectives.base import Objective
from xmodels.training.optimizers import exclude_from_decay

SUM = tf.distribute.ReduceOp.SUM


@dataclasses.dataclass(repr=False)  # TensorFlow's warnings print their functions' owner, with all its weights
class Learner:
    """A network, its objective and an optimizer under one strategy.

    Make it inside `strategy.scope()`, with a built backbone. `batch` is one batch of zeros, which builds the heads.

    Attributes:
        clip_norm: global norm to which the summed gradients are scaled down; 0 for none.
        seed: of dropout; masks are a function of (seed, step, replica).
        jit_compile: compile forward and backward of a replica with XLA.
        gradient_norms: of each of `variables` in the last step, before clipping, float32 (V,).
    """

    strategy: tf.distribute.Strategy
    backbone: Backbone
    objective: Objective
    optimizer: keras.optimizers.Optimizer
    batch: dict
    clip_norm: float = 1.0
    seed: int = 0
    jit_compile: bool = False

    def __post_init__(self):
        outputs = self.objective.forward(self.backbone, self.batch)
        losses, metrics = self.objective.score(outputs, self.batch, self.backbone)
        self.names = [*losses, *metrics, "real_tokens", "skipped"]
        self.loss_names = list(losses)
        self.variables = self.backbone.trainable_variables + self.objective.trainable_variables
        exclude_from_decay(self.optimizer, named_weights(self.backbone) | named_weights(self.objective))
        self.optimizer.build(self.variables)
        # Where reading stands, of batches that say so: epoch, window, groups done. Exact even after a step that failed.
        self.cursor = tf.Variable([0, 0, 0], dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        self.gradient_norms = tf.Variable(tf.zeros(len(self.variables)), aggregation=self.cursor.aggregation)
        self._gradients = tf.function(self._replica_gradients, jit_compile=self.jit_compile or None)
        self.train = tf.function(self._train, reduce_retracing=True)
        self.evaluate_batch = tf.function(self._evaluate_batch)

    @property
    def step(self) -> int:
        """Number of updates done."""
        return int(self.optimizer.iterations.numpy())

    def _train(self, iterator, num_steps):
        """`num_steps` updates. Returns (sum, weight) for each of `names` over all of them, and seconds of data wait."""
        totals, waited = tf.zeros((len(self.names), 2)), tf.zeros((), tf.float64)
        for _ in tf.range(num_steps):
            with tf.control_dependencies([totals]):
                asked = tf.timestamp()
            with tf.control_dependencies([asked]):
                batch = next(iterator)
            if "cursor" in batch:
                self.cursor.assign(self.strategy.experimental_local_results(batch["cursor"])[-1][-1])
                batch = {name: value for name, value in batch.items() if name != "cursor"}
            with tf.control_dependencies(
                [t for x in batch.values() for t in self.strategy.experimental_local_results(x)]
            ):
                waited += tf.timestamp() - asked
            with tf.control_dependencies([waited]):  # or one core might compute first and read the clock later
                sums, norms = self.strategy.run(self._replica_step, (batch,))
            self.gradient_norms.assign(self.strategy.experimental_local_results(norms)[0])
            totals += self.strategy.reduce(SUM, sums, axis=None)
        return totals, waited

    def _replica_step(self, batch):
        context = tf.distribute.get_replica_context()
        inverse = 1.0 / tf.maximum(context.all_reduce(SUM, self._loss_weights(batch)), 1e-5)  # per loss
        step_seed = fold(tf.constant(self.seed, tf.uint64), self.optimizer.iterations.value)
        seed = tf.bitcast(fold(step_seed, context.replica_id_in_sync_group), tf.uint32)  # (2,)
        gradients, sums = self._gradients(batch, inverse, seed)
        gradients = context.all_reduce(SUM, gradients)
        squares = 2.0 * tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
        norm = tf.sqrt(tf.reduce_sum(squares))
        finite = tf.math.is_finite(norm)
        scale = self.clip_norm / tf.maximum(norm, self.clip_norm) if self.clip_norm else 1.0
        # Gradients that are not finite count as zero, and the step as skipped.
        gradients = [tf.where(finite, g * scale, tf.zeros_like(g)) for g in gradients]
        self.optimizer.apply(gradients, self.variables)
        # It needs the gradients, so that who waits for the result (the measure of data wait) waits for the whole step.
        skipped = tf.stack([tf.cast(~finite, tf.float32), 1.0]) / context.num_replicas_in_sync
        return tf.concat([tf.where(finite, sums, tf.zeros_like(sums)), skipped[None]], axis=0), tf.sqrt(squares)

    def _loss_weights(self, batch):
        """The weight of each loss in this replica's batch.

        The weights depend on the batch alone, so of the forward pass traced here the graph keeps nothing.
        """
        outputs = self.objective.forward(self.backbone, batch)
        losses, _ = self.objective.score(outputs, batch, self.backbone)
        return tf.stack([tf.cast(losses[name][1], tf.float32) for name in self.loss_names])

    def _replica_gradients(self, batch, inverse, seed):
        """Gradients of this replica's share of the loss, dense, and the stacked (sum, weight) pairs."""
        with tf.GradientTape() as tape, dropout_seed(seed):
            outputs = self.objective.forward(self.backbone, batch, training=True)
            losses, metrics = self.objective.score(outputs, batch, self.backbone)
            loss = tf.add_n([losses[name][0] * inverse[i] for i, name in enumerate(self.loss_names)])
        gradients = tape.gradient(loss, [v.value for v in self.variables], unconnected_gradients="zero")
        return [tf.convert_to_tensor(g) for g in gradients], self._stack(losses | metrics, batch)

    def _stack(self, pairs, batch):
        """(sum, weight) of all losses and metrics, then real tokens and all positions: float32 (names - 1, 2)."""
        real = tf.cast(batch["padding_mask"], tf.float32)
        pairs = [*pairs.values(), (tf.reduce_sum(real), tf.cast(tf.size(real), tf.float32))]
        return tf.stack([tf.stack([tf.cast(x, tf.float32) for x in pair]) for pair in pairs])

    def _evaluate_batch(self, batch):
        outputs = self.objective.forward(self.backbone, batch, training=False)
        losses, metrics = self.objective.score(outputs, batch, self.backbone)
        return self._stack(losses | metrics, batch)

    def evaluate(self, batches) -> dict[str, float]:
        """Means over all batches of a dataset."""
        totals = tf.zeros((len(self.names) - 1, 2))
        for batch in batches:
            totals += self.evaluate_batch(batch)
        return self.means(totals)

    def means(self, totals) -> dict[str, float]:
        """{name: mean} from stacked (sum, weight) pairs; `loss` is the sum of the losses."""
        values = {
            n: float(s) / float(w) if w else 0.0 for n, (s, w) in zip(self.names, np.asarray(totals), strict=False)
        }
        return {"loss": sum(values[name] for name in self.loss_names), **values}
