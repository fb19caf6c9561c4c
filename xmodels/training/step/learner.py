"""One training step for every strategy: global weights first, then sums, then clipping, then the update.

`Model.fit` of Keras 3 clips before it reduces and averages means of replicas, so it is wrong, or fails, under
`tf.distribute` (see BUILD_NOTES.md). Here replicas and micro-batches add up to the large batch exactly.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from xmodels.models.backbone import Backbone, named_weights
from xmodels.objectives.base import Objective
from xmodels.training.optimizers.optimizers import prepare
from xmodels.training.states.averaging import MovingAverage
from xmodels.training.step.guard import Guard
from xmodels.training.step.precision import ONCE, LossScale
from xmodels.training.step.sparse import of_values, sum_over_replicas, values_of
from xmodels.training.step.stream_pass import StreamPass
from xmodels.training.step.streams import Stream, choose, first_credits, objective_of, runs

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
    """A network, what it learns, and an optimizer under one strategy.

    Make it inside `strategy.scope()`, with a built backbone; zeros of the streams' batches build the heads. A step is of one
    stream (`streams.choose`). It changes the network and the heads of that stream's objective; all else stays as it is.
    Under the policy mixed_float16 the loss is scaled. A step whose loss or gradients are not finite changes neither
    weights nor the optimizer's variables; the step number, and with it the schedule and the place in the data, go on.

    Attributes:
        streams: {name: objective, batches and share}; `streams.single` for one objective.
        clip_norm: global norm to which the summed gradients are scaled down; 0 for none.
        seed: of dropout; masks are a function of (seed, step, replica, micro-batch). Also of the order of streams.
        jit_compile: compile forward and backward of a replica with XLA.
        objective: the objective of the only stream, or all of them as one.
        passes: what is compiled for each stream.
        steps_of: {name of a stream: its steps in this process}.
        names, loss_names: of the pairs that steps give, and of the losses among them; with several streams `STREAM/NAME`.
        gradient_norms: of each of `variables` in the last step, before clipping, float32 (V,).
    """

    strategy: tf.distribute.Strategy
    backbone: Backbone
    streams: Mapping[str, Stream]
    optimizer: keras.optimizers.Optimizer
    clip_norm: float = 1.0
    seed: int = 0
    jit_compile: bool = False
    memory: Memory = Memory()

    def __post_init__(self):
        self.passes = {
            name: StreamPass(stream, self.backbone, self.memory, self.seed, self.jit_compile)
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
        decay = self.memory.ema_decay
        self.average = MovingAverage(self.trained_weights(), decay) if decay else None
        self.credits = None
        if len(self.streams) > 1:
            credits = first_credits(self.seed, len(self.streams))
            self.credits = tf.Variable(credits, trainable=False, aggregation=ONCE)
        self.guard = Guard(self)
        self._steps = {}
        for name, each in self.passes.items():
            each.build(self.variables)
            self._steps[name] = tf.function(functools.partial(self._train, name), reduce_retracing=True)

    def _full(self, stream: str, name: str) -> str:
        return f"{stream}/{name}" if len(self.streams) > 1 else name

    @property
    def first_objective(self) -> Objective:
        """That of the first stream, which stands for all of them in costs and examples."""
        return next(iter(self.streams.values())).objective

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
        found = {}
        for part in (self.loss_scale, self.average):
            found |= part.variables if part else {}
        for stream, each in self.passes.items():
            if each.carried:
                found |= {self._full(stream, name): v for name, v in each.carried.variables.items()}
        return found | ({} if self.credits is None else {"stream_credits": self.credits})

    def averaged(self):
        """A context in which the weights are those to evaluate and to hand over: their moving average, if there is one."""
        return self.average.in_place() if self.average else contextlib.nullcontext()

    def settle(self) -> str:
        """At the end of a run: the weights are from now on their moving average, if there is one; returns a description."""
        if not self.average:
            return ""
        decay = self.average.decay
        self.average.settle()
        self.average = None
        return f"moving average, decay {decay:g}"

    def train(self, iterators, num_steps: tf.Tensor):
        """`num_steps` updates. Returns (sum, weight) for each of `names` over all of them, and seconds of data wait.

        Args:
            iterators: {name of a stream: an iterator of its batches}, or the only one.

        Raises:
            DataError: the first batch does not suit the network.
        """
        if not isinstance(iterators, Mapping):
            iterators = dict.fromkeys(self.streams, iterators)
        try:
            if len(self.streams) == 1:
                (name,) = self.streams
                return self._counted(name, iterators[name], num_steps)
            return self._in_turn(iterators, int(num_steps))
        except tf.errors.OpError:
            if self.guard.problem is not None:
                raise self.guard.problem from None
            raise

    def _counted(self, name: str, iterator, num_steps):
        """Steps of one stream, counted also where one of them fails; `reading` names it then."""
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
        """The same over several streams, one call for steps of one stream that follow one another."""
        sums = {name: tf.zeros((len(each.names) + 1, 2), tf.float64) for name, each in self.passes.items()}
        waited = 0.0
        for name, count in runs(self.streams, self.step, num_steps, self.credits.numpy()):
            found, seconds = self._counted(name, iterators[name], tf.constant(count))
            sums[name] += found
            waited += float(seconds)
        return tf.concat(list(sums.values()), axis=0), waited

    def _train(self, name, iterator, num_steps):
        # In float64 sums of float32 do not depend on how many steps a call makes, so a resumed run logs the same numbers.
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
            # One core would compute first and read the clock later. It is the batch that has to wait: a call of a function is
            # dissolved, and then only its side effects wait for what the call waits for.
            with tf.control_dependencies([waited, self.guard.check(stream, batch)]):
                batch = tf.nest.map_structure(tf.identity, batch, expand_composites=True)
                totals += tf.cast(self._step(stream, batch), tf.float64)
        return totals, waited

    @tf.autograph.experimental.do_not_convert  # nothing below needs it, and it would cost seconds
    def _step(self, stream: StreamPass, batch):
        """One step of all replicas. Returns (sum, weight) for each of the names of the stream, and for `skipped`.

        The update is a second call of the replicas, since Mirrored strategies cannot merge inside of a condition.
        """
        compute = functools.partial(self._replica_gradients, stream)
        gradients, *results, carried = self.strategy.run(compute, (batch,))
        sums, norms, finite = (self._first(result) for result in results)
        if stream.carried:
            stream.carried.assign([self._first(value) for value in carried])
        if len(self.streams) > 1:  # those of variables that the stream does not reach are 0
            norms = tf.scatter_nd(stream.places[:, None], norms, [len(self.variables)])
        self.gradient_norms.assign(norms)
        fault = ~finite
        if self.loss_scale:  # a scale that is too large is no fault, unless the loss itself is not finite
            fault &= self.loss_scale.is_smallest | ~self._finite_losses(stream, sums)

        def update():
            self.strategy.run(functools.partial(self._update, stream), (gradients,))
            return tf.zeros((), sums.dtype)

        def skip():
            self.strategy.run(self._skip)
            return tf.zeros((), sums.dtype)

        done = tf.cond(finite, update, skip)
        self.guard.observe(stream, batch, sums, norms, finite, fault)
        with tf.control_dependencies([done]):  # or what is left of a step would count as a wait for the next batch
            sums = tf.where(finite, sums, tf.zeros_like(sums))
        return tf.concat([sums, [[tf.cast(fault, tf.float32), 1.0]]], axis=0)

    def _first(self, value):
        """What is equal on all replicas, of the first one here."""
        return self.strategy.experimental_local_results(value)[0]

    def _finite_losses(self, stream: StreamPass, sums):
        return tf.reduce_all(tf.math.is_finite(sums[: len(stream.loss_names)]))

    def _replica_gradients(self, stream: StreamPass, batch):
        """One replica's part of a step.

        Returns:
            The global gradients, clipped; the global (sum, weight) pairs; the norms; whether all that is finite; and the
            memory of the rows of the whole batch.
        """
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        if stream.carried:
            batch = stream.carried.rows(replica, batch)
        weights = context.all_reduce(SUM, stream.loss_weights(batch))
        inverse = 1.0 / tf.maximum(weights, 1e-5)  # per loss
        if stream.objective.sums_examples:
            inverse = tf.ones_like(weights)
        scale = self.loss_scale.scale if self.loss_scale else 1.0
        gradients, sums, outputs = stream.local_gradients(
            batch, inverse * scale, replica, self.optimizer.iterations.value
        )
        gradients, sums = sum_over_replicas(context, gradients, sums)
        if self.loss_scale:
            gradients = [of_values(g, lambda x: x / scale) for g in gradients]
        gradients = self.optimizer.awake(gradients, stream.variables)
        squares = 2.0 * tf.stack([tf.nn.l2_loss(values_of(gradient)) for gradient in gradients])
        norm = tf.sqrt(tf.reduce_sum(squares))
        if self.clip_norm:
            factor = self.clip_norm / tf.maximum(norm, self.clip_norm)
            gradients = [of_values(g, lambda x: x * factor) for g in gradients]
        finite = tf.math.is_finite(norm) & self._finite_losses(stream, sums)
        carried = stream.carried.updated(outputs, context, finite) if stream.carried else []
        return gradients, sums, tf.sqrt(squares), finite, carried

    def _update(self, stream: StreamPass, gradients):
        self.optimizer.apply(gradients, stream.variables)
        if self.average:
            self.average.update()
        if self.loss_scale:
            self.loss_scale.grow()

    def _skip(self):
        self.optimizer.iterations.assign_add(1)
        if self.loss_scale:
            self.loss_scale.shrink()

    def evaluate(self, batches, stream: str | None = None) -> dict[str, float]:
        """Means over all batches of a dataset, with the averaged weights where there are such.

        Args:
            stream: the name of that whose objective is scored; the first one by default.
        """
        each = self.passes[stream or next(iter(self.passes))]
        with self.averaged():
            return means(each.names, each.loss_names, each.evaluate(batches))

    def means(self, totals) -> dict[str, float]:
        """{name: mean} from stacked (sum, weight) pairs of steps; `loss` is the sum of the losses.

        Of several streams it is the mean over the steps; streams without a step are left out.
        """
        if len(self.streams) == 1:
            return means(self.names, self.loss_names, totals)
        found, loss, steps, place = {}, 0.0, 0.0, 0
        for name, each in self.passes.items():
            mine = totals[place:][: len(each.names) + 1]
            place += len(mine)
            if taken := float(mine[-1, 1]):
                values = means([*each.names, "skipped"], each.loss_names, mine)
                loss, steps = loss + taken * values.pop("loss"), steps + taken
                found |= {f"{name}/{n}": value for n, value in values.items()}
        return {"loss": loss / max(1.0, steps), **found}

    def counted(self, totals) -> dict[str, tuple[float, float]]:
        """{unit: (real ones, all)} of steps, over all streams, from stacked pairs."""
        found: dict[str, np.ndarray] = {}
        for name, each in self.passes.items():
            for unit in each.units:
                found[unit] = found.get(unit, 0.0) + totals[self.names.index(self._full(name, f"real_{unit}"))]
        return {unit: (float(pair[0]), float(pair[1])) for unit, pair in found.items()}

    def skipped(self, totals) -> int:
        """How many steps were skipped for a fault, from stacked pairs."""
        return int(sum(totals[self.names.index(self._full(name, "skipped"))][0] for name in self.passes))


def means(names: list[str], losses: list[str], totals) -> dict[str, float]:
    """{name: mean} from (sum, weight) pairs; `loss` is the sum of the losses."""
    values = {n: float(s) / float(w) if w else 0.0 for n, (s, w) in zip(names, np.asarray(totals), strict=False)}
    return {"loss": sum(values[name] for name in losses), **values}
