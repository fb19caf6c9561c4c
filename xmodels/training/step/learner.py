"""The training step for every `tf.distribute` strategy: sums the loss weights over all replicas, then the gradients, clips, updates.

`Model.fit` of Keras 3 clips before it sums over replicas and averages their means, so it is wrong, or fails, under
`tf.distribute` (docs/decisions/training-step.md). Here replicas and micro-batches add up to the large batch exactly.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from xmodels.models.backbone import Backbone, named_weights
from xmodels.objectives.base import Objective
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.optimizers import prepare
from xmodels.training.states.averaging import MovingAverage, NonMonotonicAverage
from xmodels.training.step.graphs import function_of
from xmodels.training.step.guard import Guard
from xmodels.training.step.loss_weights import LossWeights
from xmodels.training.step.precision import ONCE, LossScale
from xmodels.training.step.renewal import Renewal
from xmodels.training.step.sparse import of_values, sum_over_replicas, values_of
from xmodels.training.step.stream_pass import StreamPass
from xmodels.training.step.streams import Stream, choose, first_credits, objective_of, runs

SUM = tf.distribute.ReduceOp.SUM


@dataclasses.dataclass(frozen=True)
class Memory:
    """Settings of a step that trade memory for time or quality.

    Attributes:
        micro_batches: parts into which a replica splits its share of a batch; their gradients are summed.
        rematerialize: whether the activations of blocks are recomputed in the backward pass instead of kept.
        ema_decay: of a moving average of the weights, which is then evaluated and saved in place of them; 0 for none.
        nonmonotonic_interval: evaluations without a better loss before the weights are averaged (`NonMonotonicAverage`); 0 for none.
    """

    micro_batches: int = 1
    rematerialize: bool = False
    ema_decay: float = 0.0
    nonmonotonic_interval: int = 0

    def average_of(self, weights: dict) -> MovingAverage | None:
        """Returns the average of the weights, by their names in a state, that is kept while training; None if there is none."""
        if self.nonmonotonic_interval:
            return NonMonotonicAverage(weights, self.nonmonotonic_interval)
        return MovingAverage(weights, self.ema_decay) if self.ema_decay else None


@dataclasses.dataclass(repr=False)  # TensorFlow's warnings would print the owner of a function, with all its weights
class Learner:
    """Trains a network with one or several objectives and an optimizer, under one strategy.

    Make it inside `strategy.scope()`, with a built backbone; batches of zeros build the heads. Each step takes a batch of one
    stream (`streams.choose`), and updates only the network and the heads of that stream's objective. Under the policy
    mixed_float16 the loss is scaled. A step whose loss or gradients are not finite changes neither weights nor the optimizer's
    variables; the step number still advances, and with it the schedule and the position in the data.

    Attributes:
        strategy: a `tf.distribute` strategy.
        backbone: the network.
        streams: {name: `Stream`}; `streams.single` makes it for one objective.
        optimizer: one of `optimizers.make_optimizer`, or a `GroupedOptimizer`.
        clip_norm: the global norm to which the summed gradients are clipped; 0 for none.
        seed: of dropout masks, which depend on (seed, step, replica, micro-batch), and of the order of streams.
        jit_compile: whether to compile the forward and backward pass of a replica with XLA.
        memory: settings such as the number of micro-batches.
        loss_weights: by which losses are multiplied, in what is minimised and in what is logged.
        objective: the objective of the only stream, or all of them as one.
        passes, steps_of: {name of a stream}: its compiled `StreamPass`, and its steps in this process.
        names, loss_names: of the (sum, weight) pairs that steps return, and of losses among them; `STREAM/NAME` of several streams.
        renewal: draws anew what layers of the network draw every so many steps.
        batches_at_once: how many batches iterators give at once, one behind the other.
        gradient_norms: of each of `variables` in the last step, before clipping, float32 (V,).
    """

    strategy: tf.distribute.Strategy
    backbone: Backbone
    streams: Mapping[str, Stream]
    optimizer: keras.optimizers.Optimizer | GroupedOptimizer
    clip_norm: float = 1.0
    seed: int = 0
    jit_compile: bool = False
    memory: Memory = Memory()
    loss_weights: LossWeights = LossWeights()
    batches_at_once: ClassVar[int] = 1
    reads_codes: ClassVar[bool] = False  # whether arrays that sources hold as codes stay so in batches

    def __post_init__(self):
        self.passes = {
            name: StreamPass(stream, self.backbone, self.memory, self.seed, self.jit_compile, self.strategy)
            for name, stream in self.streams.items()
        }
        self.objective = objective_of(self.streams)
        self.names = [self._full(n, each) for n, p in self.passes.items() for each in [*p.names, "skipped"]]
        self.loss_names = [self._full(n, each) for n, p in self.passes.items() for each in p.loss_names]
        self.steps_of = dict.fromkeys(self.streams, 0)
        prepare(self.optimizer, self.backbone, self.objective)
        self.variables = self.backbone.trainable_variables + self.objective.trainable_variables
        self.optimizer.build(self.variables)
        self.gradient_norms = tf.Variable(tf.zeros(len(self.variables)), aggregation=ONCE)
        self.loss_scale = LossScale() if self.backbone.compute_dtype == "float16" else None
        self.average = self.memory.average_of(self.trained_weights())
        self.credits: Any = None  # a variable where there are several streams
        if len(self.streams) > 1:
            self.credits = tf.Variable(first_credits(self.seed, len(self.streams)), trainable=False, aggregation=ONCE)
        self.guard = Guard(self)
        self.renewal = Renewal(self.backbone, self.seed)
        self._steps = {}
        for name, each in self.passes.items():
            each.build(self.variables)
            self._steps[name] = function_of(self, functools.partial(self._train, name), reduce_retracing=True)

    def _full(self, stream: str, name: str) -> str:
        return f"{stream}/{name}" if len(self.streams) > 1 else name

    @property
    def first_objective(self) -> Objective:
        """The objective of the first stream, which represents all of them in estimates of costs and in examples."""
        return next(iter(self.streams.values())).objective

    @property
    def step(self) -> int:
        """The number of steps done, including skipped ones."""
        return int(self.optimizer.iterations.numpy())

    def trained_weights(self) -> dict[str, keras.Variable]:
        """Returns the trainable weights by their names in a state, in the order of `variables`."""
        parts = (("backbone", self.backbone), (self.objective.prefix, self.objective))
        names = {id(v): f"{prefix}.{n}" for prefix, part in parts for n, v in named_weights(part).items()}
        return {names[id(v)]: v for v in self.variables}

    @property
    def further_variables(self) -> dict[str, tf.Variable]:
        """The variables of a state other than weights and those of the optimizer, by name."""
        found: dict[str, tf.Variable] = {}
        for part in (self.loss_scale, self.average):
            found |= part.variables if part else {}
        for stream, each in self.passes.items():
            if each.carried:
                found |= {self._full(stream, name): v for name, v in each.carried.variables.items()}
        return found | ({} if self.credits is None else {"stream_credits": self.credits})

    def averaged_weights(self):
        """Returns a context in which the weights are those to evaluate and to save: their moving average, if there is one."""
        return self.average.in_place() if self.average else contextlib.nullcontext()

    def apply_average(self) -> str:
        """Replaces the weights with their moving average, if there is one, at the end of a run. Returns a description."""
        average, self.average = self.average, None
        if average:
            average.apply_average()
        return average.describe() if average else ""

    def train(self, iterators, num_steps: tf.Tensor):
        """Does `num_steps` steps.

        Args:
            iterators: {name of a stream: an iterator of its batches}, or the iterator of the only stream.
            num_steps: int ().

        Returns:
            float64 (names, 2), (sum, weight) for each of `names` over all steps; and the seconds spent waiting for data.

        Raises:
            DataError: the first batch does not fit the network.
        """
        if not isinstance(iterators, Mapping):
            iterators = dict.fromkeys(self.streams, iterators)
        try:
            if len(self.streams) == 1:
                (name,) = self.streams
                return self._train_stream(name, iterators[name], num_steps)
            return self._in_turn(iterators, int(num_steps))
        except tf.errors.OpError:
            if self.guard.problem is not None:
                raise self.guard.problem from None
            raise

    def _train_stream(self, name: str, iterator, num_steps):
        """Does steps of one stream, and counts those done even if one fails; `reading` then names the stream."""
        before, self.reading = None if self.credits is None else self.credits.numpy(), name
        first = self.step
        try:
            return self._steps[name](iterator, num_steps)
        finally:
            done = self.step - first
            self.steps_of[name] += done
            if done and before is not None:
                for step in range(first, first + done):
                    before = choose(self.streams, step, before)[1]
                self.credits.assign(before)

    def _in_turn(self, iterators, num_steps: int):
        """Does steps of several streams, with one call for consecutive steps of the same stream. Returns as `train`."""
        sums = {name: tf.zeros((len(each.names) + 1, 2), tf.float64) for name, each in self.passes.items()}
        waited = 0.0
        for name, count in runs(self.streams, self.step, num_steps, self.credits.numpy()):
            found, seconds = self._train_stream(name, iterators[name], tf.constant(count))
            sums[name] += found
            waited += float(seconds)
        return tf.concat(list(sums.values()), axis=0), waited

    def _train(self, name, iterator, num_steps):
        # Summed in float64, the totals do not depend on how many steps a call does, so a resumed run logs the same numbers.
        stream = self.passes[name]
        totals, waited = tf.zeros((len(stream.names) + 1, 2), tf.float64), tf.zeros((), tf.float64)
        for _ in tf.range(num_steps):
            with tf.control_dependencies([totals]):
                asked = tf.timestamp()
            with tf.control_dependencies([asked]):
                batch = next(iterator)
            if "cursor" in batch:
                stream.cursor.assign(self.strategy.experimental_local_results(batch["cursor"])[-1][-1])
                batch = {feature: value for feature, value in batch.items() if feature != "cursor"}
            with tf.control_dependencies(
                [t for x in batch.values() for t in self.strategy.experimental_local_results(x)]
            ):
                waited += tf.timestamp() - asked
            # A single core would compute first and read the clock later, so the step must wait. The dependency is on the batch
            # itself: when TensorFlow inlines a function call, only its side effects keep the control dependencies of the call.
            with tf.control_dependencies([waited, self.guard.check(stream, batch)]):
                batch = tf.nest.map_structure(tf.identity, batch, expand_composites=True)
                totals += tf.cast(self._step(stream, batch), tf.float64)
        return totals, waited

    @tf.autograph.experimental.do_not_convert  # nothing below needs AutoGraph, which would take seconds
    def _step(self, stream: StreamPass, batch):
        """Returns one step of all replicas. Returns (sum, weight) for each of the names of the stream, and for `skipped`.

        The update is a second `strategy.run`, since Mirrored strategies cannot synchronise replicas inside a condition.
        """
        compute = functools.partial(self._replica_gradients, stream)
        gradients, *results, carried = self.strategy.run(compute, (batch,))
        sums, norms, finite = (self._first(result) for result in results)
        if stream.carried:
            stream.carried.assign([self._first(value) for value in carried])
        if len(self.streams) > 1:  # norms of variables that the stream does not train are 0
            norms = tf.scatter_nd(stream.places[:, None], norms, [len(self.variables)])
        self.gradient_norms.assign(norms)
        fault = ~finite
        if self.loss_scale:  # a too large scale is no fault, unless the loss itself is not finite
            fault &= self.loss_scale.is_smallest | ~self._finite_losses(stream, sums)

        def update():
            self.strategy.run(functools.partial(self._update, stream), (gradients,))
            return tf.zeros((), sums.dtype)

        def skip():
            self.strategy.run(self._skip)
            return tf.zeros((), sums.dtype)

        done = tf.cond(finite, update, skip)
        self.guard.observe(stream, batch, sums, norms, finite, fault)
        with tf.control_dependencies([done]):  # or the rest of the step would count as waiting for the next batch
            sums = tf.where(finite, sums, tf.zeros_like(sums))
        return tf.concat([sums, [[tf.cast(fault, tf.float32), 1.0]]], axis=0)

    def _first(self, value):
        """Returns the value of the first replica of this host, for values that are equal on all replicas."""
        return self.strategy.experimental_local_results(value)[0]

    def _finite_losses(self, stream: StreamPass, sums):
        return tf.reduce_all(tf.math.is_finite(sums[: len(stream.loss_names)]))

    def _replica_gradients(self, stream: StreamPass, batch):
        """Returns one replica's part of a step.

        Returns:
            The gradients summed over all replicas, clipped; the (sum, weight) pairs summed over all replicas; the norm of each
            gradient before clipping; whether losses and gradients are finite; and the memory of all rows of the batch.
        """
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        if stream.carried:
            batch = stream.carried.rows(replica, batch)
        weights = context.all_reduce(SUM, stream.loss_weights(batch))
        inverse = 1.0 / tf.maximum(weights, 1e-5)  # per loss
        if stream.objective.sums_examples:
            inverse = tf.ones_like(weights)
        iterations = self.optimizer.iterations.value
        if (factors := self.loss_weights.at(stream.loss_names, iterations)) is not None:
            inverse *= factors
        scale = self.loss_scale.scale if self.loss_scale else 1.0
        gradients, sums, outputs = stream.local_gradients(batch, inverse * scale, replica, iterations)
        gradients, sums = sum_over_replicas(context, gradients, sums)
        sums = self.loss_weights.apply(stream.loss_names, iterations, sums)
        if self.loss_scale:
            gradients = [of_values(g, lambda x: x / scale) for g in gradients]
        gradients = self.optimizer.zero_frozen(gradients, stream.variables)
        squares = 2.0 * tf.stack([tf.nn.l2_loss(values_of(gradient)) for gradient in gradients])
        norm = tf.sqrt(tf.reduce_sum(squares))
        gradients = self.optimizer.clip(gradients, stream.variables, squares, self.clip_norm)
        finite = tf.math.is_finite(norm) & self._finite_losses(stream, sums)
        carried = stream.carried.next_memory(outputs, context, finite) if stream.carried else []
        return gradients, sums, tf.sqrt(squares), finite, carried

    def _update(self, stream: StreamPass, gradients):
        self.optimizer.apply(gradients, stream.variables)
        if self.average:
            self.average.update()
        if self.loss_scale:
            self.loss_scale.grow()

    def _skip(self):
        self.optimizer.advance()
        if self.loss_scale:
            self.loss_scale.shrink()

    def evaluate(self, batches, stream: str | None = None, evaluate_batch: Callable | None = None) -> dict[str, float]:
        """Returns {name: mean} over all batches of a dataset, with the moving average of the weights if there is one.

        Args:
            batches: the dataset.
            stream: the name of the stream whose objective is evaluated; by default the first one.
            evaluate_batch: what runs a batch, in place of `StreamPass.evaluate_batch`.
        """
        each = self.passes[stream or next(iter(self.passes))]
        with self.averaged_weights():
            totals = self.loss_weights.apply(each.loss_names, self.step, each.evaluate(batches, evaluate_batch))
        return means(each.names, each.loss_names, totals)

    def means(self, totals) -> dict[str, float]:
        """Returns {name: mean} from the stacked (sum, weight) pairs of steps; `loss` is the sum of the losses.

        With several streams `loss` is the mean over the steps; streams without a step are left out.
        """
        if len(self.streams) == 1:
            return means(self.names, self.loss_names, totals)
        found: dict[str, float] = {}
        loss, steps, place = 0.0, 0.0, 0
        for name, each in self.passes.items():
            mine = totals[place:][: len(each.names) + 1]
            place += len(mine)
            if taken := float(mine[-1, 1]):
                values = means([*each.names, "skipped"], each.loss_names, mine)
                loss, steps = loss + taken * values.pop("loss"), steps + taken
                found |= {f"{name}/{n}": value for n, value in values.items()}
        return {"loss": loss / max(1.0, steps), **found}

    def report(self) -> dict[str, float]:
        """Returns what a log says of groups of weights that learn apart: `GROUP/learning_rate` and `GROUP/gradient_norm`; and of
        weights of losses that change, `LOSS/weight`."""
        found = self.optimizer.report(self.variables, self.gradient_norms.numpy())
        return found | {f"{name}/weight": value for name, value in self.loss_weights.changing(self.step).items()}

    def count_units(self, totals) -> dict[str, tuple[float, float]]:
        """Returns {unit: (count without padding, count with padding)} over all streams, from the stacked pairs of steps."""
        found: dict[str, np.ndarray] = {}
        for name, each in self.passes.items():
            for unit in each.units:
                found[unit] = found.get(unit, 0.0) + totals[self.names.index(self._full(name, f"real_{unit}"))]
        return {unit: (float(pair[0]), float(pair[1])) for unit, pair in found.items()}

    def count_skipped(self, totals) -> int:
        """Returns how many steps were skipped because of a fault, from the stacked pairs of steps."""
        return int(sum(totals[self.names.index(self._full(name, "skipped"))][0] for name in self.passes))


def means(names: list[str], losses: list[str], totals) -> dict[str, float]:
    """Returns {name: mean} from (sum, weight) pairs; `loss` is the sum of the losses."""
    values = {n: float(s) / float(w) if w else 0.0 for n, (s, w) in zip(names, np.asarray(totals), strict=False)}
    return {"loss": sum(values[name] for name in losses), **values}
