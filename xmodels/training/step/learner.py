"""One training step for every strategy: global weights first, then sums, then clipping, then the update.

`Model.fit` of Keras 3 clips before it reduces and averages means of replicas, so it is wrong, or fails, under
`tf.distribute` (see BUILD_NOTES.md). Here replicas and micro-batches add up to the large batch exactly.
"""

import contextlib
import dataclasses

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.ops.seeds import fold
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.rematerialization import rematerialized
from xmodels.models.backbone import Backbone, named_weights
from xmodels.objectives.base import Objective
from xmodels.training.optimizers.optimizers import prepare
from xmodels.training.states.averaging import MovingAverage
from xmodels.training.step.accumulation import accumulate
from xmodels.training.step.carried import Carried
from xmodels.training.step.first_batch import check_lengths
from xmodels.training.step.guard import Guard
from xmodels.training.step.precision import ONCE, LossScale

SUM = tf.distribute.ReduceOp.SUM


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a step spends memory on.

    Attributes:
        micro_batches: parts into which a replica cuts its share of a batch; their gradients are summed.
        rematerialize: whether blocks are computed again in the backward pass, instead of kept.
        ema_decay: of a moving average of the weights, which is then what is evaluated and handed over; 0 for none.
    """

    micro_batches: int = 1
    rematerialize: bool = False
    ema_decay: float = 0.0


@dataclasses.dataclass(repr=False)  # TensorFlow's warnings print their functions' owner, with all its weights
class Learner:
    """A network, its objective and an optimizer under one strategy.

    Make it inside `strategy.scope()`, with a built backbone. `batch` is one batch of zeros, which builds the heads.
    Under the policy mixed_float16 the loss is scaled. A step whose loss or gradients are not finite changes neither
    weights nor the optimizer's variables; the step number, and with it the schedule and the place in the data, go on.

    Attributes:
        clip_norm: global norm to which the summed gradients are scaled down; 0 for none.
        seed: of dropout; masks are a function of (seed, step, replica, micro-batch).
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
    memory: Memory = Memory()

    def __post_init__(self):
        check_lengths(self.batch, self.backbone)
        row = {name: x[:1] for name, x in self.batch.items()}
        outputs = self.objective.forward(self.backbone, row)
        losses, metrics = self.objective.score(outputs, row, self.backbone)
        self.names = [*losses, *metrics, "real_tokens", "skipped"]
        self.loss_names = list(losses)
        prepare(self.optimizer, self.backbone, self.objective)
        self.variables = self.backbone.trainable_variables + self.objective.trainable_variables
        self.optimizer.build(self.variables)
        # Where reading stands, of batches that say so: epoch, window, groups done. Exact even after a step that failed.
        self.cursor = tf.Variable([0, 0, 0], dtype=tf.int64, aggregation=ONCE)
        self.gradient_norms = tf.Variable(tf.zeros(len(self.variables)), aggregation=ONCE)
        self.loss_scale = LossScale() if self.backbone.compute_dtype == "float16" else None
        decay = self.memory.ema_decay
        self.average = MovingAverage(self.trained_weights(), decay) if decay else None
        remembers = self.backbone.carries_memory
        rows = len(self.batch["token_ids"])
        self.carried = Carried(self.backbone, rows, self.memory.micro_batches) if remembers else None
        self.guard = Guard(self)
        self._gradients = tf.function(self._micro_gradients, jit_compile=self.jit_compile or None, autograph=False)
        self._steps = tf.function(self._train, reduce_retracing=True)
        self.evaluate_batch = tf.function(self._evaluate_batch, autograph=False)

    @property
    def step(self) -> int:
        """Number of steps done, with those that were skipped."""
        return int(self.optimizer.iterations.numpy())

    def trained_weights(self) -> dict[str, keras.Variable]:
        """The weights that training changes, by the names that they have in a state, in the order of `variables`."""
        parts = (("backbone", self.backbone), (self.objective.prefix, self.objective))
        names = {id(v): f"{prefix}.{n}" for prefix, part in parts for n, v in named_weights(part).items()}
        return {names[id(v)]: v for v in self.variables}

    @property
    def further_variables(self) -> dict[str, tf.Variable]:
        """What a state holds besides weights and the optimizer's variables, by name."""
        parts = [part.variables for part in (self.loss_scale, self.average, self.carried) if part]
        return {name: variable for variables in parts for name, variable in variables.items()}

    def averaged(self):
        """A context in which the weights are those to evaluate and to hand over: their moving average, if there is one."""
        return self.average.in_place() if self.average else contextlib.nullcontext()

    def settle(self) -> str:
        """At the end of a run: the weights are from now on their moving average, if there is one; says so."""
        if not self.average:
            return ""
        decay = self.average.decay
        self.average.settle()
        self.average = None
        return f"moving average, decay {decay:g}"

    def train(self, iterator, num_steps: tf.Tensor):
        """`num_steps` updates. Returns (sum, weight) for each of `names` over all of them, and seconds of data wait.

        Raises:
            DataError: the first batch does not suit the network.
        """
        try:
            return self._steps(iterator, num_steps)
        except tf.errors.OpError:
            if self.guard.problem is not None:
                raise self.guard.problem from None
            raise

    def _train(self, iterator, num_steps):
        # In float64 sums of float32 do not depend on how many steps a call makes, so a resumed run logs the same numbers.
        totals, waited = tf.zeros((len(self.names), 2), tf.float64), tf.zeros((), tf.float64)
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
            with tf.control_dependencies(
                [waited, self.guard.check(batch)]
            ):  # or one core might compute first and read the clock later
                totals += tf.cast(self._step(batch), tf.float64)
        return totals, waited

    @tf.autograph.experimental.do_not_convert  # nothing below needs it, and it would cost seconds
    def _step(self, batch):
        """One step of all replicas. Returns (sum, weight) for each of `names`.

        The update is a second call of the replicas, since Mirrored strategies cannot merge inside of a condition.
        """
        gradients, *results, carried = self.strategy.run(self._replica_gradients, (batch,))
        sums, norms, finite = (self._first(result) for result in results)
        if self.carried:
            self.carried.keep([self._first(value) for value in carried])
        self.gradient_norms.assign(norms)
        fault = ~finite
        if self.loss_scale:  # a scale that is too large is no fault, unless the loss itself is not finite
            fault &= self.loss_scale.is_smallest | ~self._finite_losses(sums)
        tf.cond(
            finite,
            lambda: self.strategy.run(self._update, (gradients,)),
            lambda: self.strategy.run(self._skip),
        )
        self.guard.see(batch, sums, norms, finite, fault)
        sums = tf.where(finite, sums, tf.zeros_like(sums))
        return tf.concat([sums, [[tf.cast(fault, tf.float32), 1.0]]], axis=0)

    def _first(self, value):
        """What is equal on all replicas, of the first one here."""
        return self.strategy.experimental_local_results(value)[0]

    def _finite_losses(self, sums):
        return tf.reduce_all(tf.math.is_finite(sums[: len(self.loss_names)]))

    def _replica_gradients(self, batch):
        """The global gradients, clipped; the global (sum, weight) pairs, the norms, whether all that is finite; and what
        the rows of the whole batch carry on."""
        context = tf.distribute.get_replica_context()
        if self.carried:
            batch = self.carried.rows(context.replica_id_in_sync_group, batch)
        inverse = 1.0 / tf.maximum(context.all_reduce(SUM, self._loss_weights(batch)), 1e-5)  # per loss
        scale = self.loss_scale.scale if self.loss_scale else 1.0
        gradients, sums, outputs = self._local_gradients(batch, inverse * scale, context.replica_id_in_sync_group)
        *gradients, sums = context.all_reduce(SUM, [*gradients, sums])
        if self.loss_scale:
            gradients = [g / scale for g in gradients]
        gradients = self.optimizer.awake(gradients, self.variables)
        squares = 2.0 * tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
        norm = tf.sqrt(tf.reduce_sum(squares))
        if self.clip_norm:
            gradients = [g * (self.clip_norm / tf.maximum(norm, self.clip_norm)) for g in gradients]
        finite = tf.math.is_finite(norm) & self._finite_losses(sums)
        carried = self.carried.given(outputs, context, finite) if self.carried else []
        return gradients, sums, tf.sqrt(squares), finite, carried

    def _local_gradients(self, batch, inverse, replica):
        """The same of this replica's share of the batch, summed over its micro-batches."""
        step_seed = fold(fold(tf.constant(self.seed, tf.uint64), self.optimizer.iterations.value), replica)
        parts = self.memory.micro_batches
        if parts == 1:
            return self._gradients(batch, inverse, tf.bitcast(step_seed, tf.uint32))

        def compute(piece, number):
            gradients, sums, _ = self._gradients(piece, inverse, tf.bitcast(fold(step_seed, number), tf.uint32))
            return [*gradients, sums]

        like = [tf.TensorSpec(v.shape, v.dtype) for v in self.variables]
        *gradients, sums = accumulate(compute, batch, parts, [*like, tf.TensorSpec((len(self.names) - 1, 2))])
        return gradients, sums, {}

    def _update(self, gradients):
        self.optimizer.apply(gradients, self.variables)
        if self.average:
            self.average.update()
        if self.loss_scale:
            self.loss_scale.grow()

    def _skip(self):
        self.optimizer.iterations.assign_add(1)
        if self.loss_scale:
            self.loss_scale.shrink()

    def _loss_weights(self, batch):
        """The weight of each loss in this replica's batch.

        The weights depend on the batch alone, so of the forward pass traced here the graph keeps nothing.
        """
        outputs = self.objective.forward(self.backbone, batch)
        losses, _ = self.objective.score(outputs, batch, self.backbone)
        return tf.stack([tf.cast(losses[name][1], tf.float32) for name in self.loss_names])

    def _micro_gradients(self, batch, inverse, seed):
        """Gradients of a micro-batch's share of the loss, dense, the stacked (sum, weight) pairs, and what is carried on."""
        with tf.GradientTape() as tape, dropout_seed(seed), rematerialized(self.memory.rematerialize):
            outputs = self.objective.forward(self.backbone, batch, training=True)
            losses, metrics = self.objective.score(outputs, batch, self.backbone)
            loss = tf.add_n([losses[name][0] * inverse[i] for i, name in enumerate(self.loss_names)])
        gradients = tape.gradient(loss, [v.value for v in self.variables], unconnected_gradients="zero")
        carried = {name: outputs[name] for name in self.carried.held} if self.carried else {}
        return [tf.convert_to_tensor(g) for g in gradients], self._stack(losses | metrics, batch), carried

    def _stack(self, pairs, batch):
        """(sum, weight) of all losses and metrics, then real tokens and all positions: float32 (names - 1, 2)."""
        real = tf.cast(batch["padding_mask"], tf.float32)
        pairs = [*pairs.values(), (tf.reduce_sum(real), tf.cast(tf.size(real), tf.float32))]
        return tf.stack([tf.stack([tf.cast(x, tf.float32) for x in pair]) for pair in pairs])

    def _evaluate_batch(self, batch):
        outputs = self.objective.forward(self.backbone, batch, training=False)
        losses, metrics = self.objective.score(outputs, batch, self.backbone)
        past = {name: outputs[name] for name in self.carried.held} if self.carried else {}
        return self._stack(losses | metrics, batch), past

    def evaluate(self, batches) -> dict[str, float]:
        """Means over all batches of a dataset, with the averaged weights where there are such."""
        totals, past = tf.zeros((len(self.names) - 1, 2)), {}
        with self.averaged():
            for batch in batches:
                if self.carried and not past:  # the rows of a stream go on from batch to batch
                    past = self.backbone.initial_memory(len(batch["token_ids"]))
                sums, past = self.evaluate_batch({**batch, **past})
                totals += sums
        return self.means(totals)

    def means(self, totals) -> dict[str, float]:
        """{name: mean} from stacked (sum, weight) pairs; `loss` is the sum of the losses."""
        values = {
            n: float(s) / float(w) if w else 0.0 for n, (s, w) in zip(self.names, np.asarray(totals), strict=False)
        }
        return {"loss": sum(values[name] for name in self.loss_names), **values}
