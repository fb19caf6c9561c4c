"""The whole training step of a system through Keras' JAX backend, compiled for a TPU that is not there.

The step is written for the whole batch, whose rows lie on all devices; that gradients must be summed over them is found by
the compiler (GSPMD). It holds what `Learner` has the devices do: forward, backward, the division by the weights of the whole
batch, clipping, the recipe's optimizer, and the skip of a step whose numbers are not finite.

Runs in a process of its own whose KERAS_BACKEND is jax (`jobs.tpu_preflight_jax`); the module imports no jax before that.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping

import keras
import numpy as np
from keras import ops

from xmodels.layers.dropout import dropout_seed
from xmodels.layers.rematerialization import rematerialized
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.tpu.compiler import cost_of
from xmodels.training.optimizers.optimizers import prepare

AXIS = "data"


@dataclasses.dataclass
class Program:
    """A network, its objective and a built optimizer as a pure function of their variables.

    Attributes:
        row: one row of a batch; builds the heads.
        clip_norm: global norm of the gradients; 0 for none.
        seed: of dropout.
    """

    backbone: Backbone
    objective: Objective
    optimizer: keras.optimizers.Optimizer
    row: Mapping[str, np.ndarray]
    clip_norm: float = 1.0
    rematerialize: bool = False
    seed: int = 0

    def __post_init__(self):
        self.objective.run(self.backbone, self.row)
        prepare(self.optimizer, self.backbone, self.objective)
        self.variables = self.backbone.trainable_variables + self.objective.trainable_variables
        self.optimizer.build(self.variables)
        self.count = [id(v) for v in self.optimizer.variables].index(id(self.optimizer.iterations))

    @property
    def carries(self) -> bool:
        """Whether a memory goes on from batch to batch."""
        return self.backbone.carries_memory

    def state(self) -> tuple:
        """Returns the weights and the optimizer's variables, as `step` takes and returns them."""
        return [v.value for v in self.variables], [v.value for v in self.optimizer.variables]

    def step(self, state, carried, batch):
        """Returns one step.

        Args:
            state: as of `state`. carried: the features of `initial_memory`, or {}. batch: features of all rows.

        Returns:
            The new state, what is carried on, and (sum, weight) of losses and measures.
        """
        import jax

        weights, slots = state
        (_, (sums, next_carried)), gradients = jax.value_and_grad(self._loss, has_aux=True)(
            weights, slots[self.count], batch | carried, batch
        )
        norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients))
        if self.clip_norm:
            gradients = [g * (self.clip_norm / ops.maximum(norm, self.clip_norm)) for g in gradients]
        finite = ops.isfinite(norm) & ops.all(ops.isfinite(sums))
        update = jax.lax.cond(finite, self._apply_update, self._skip_update, gradients, state)
        return update, {name: ops.where(finite, next_carried[name], carried[name]) for name in carried}, sums

    def _loss(self, weights, step, features, batch):
        places = zip(self.variables, weights, strict=True)
        seed = ops.stack([ops.cast(self.seed, "uint32"), ops.cast(step, "uint32")])
        with keras.StatelessScope(list(places)), dropout_seed(seed), rematerialized(self.rematerialize):
            outputs, losses, measures = self.objective.run(self.backbone, features, training=True)
        floats = [[ops.cast(x, "float32") for x in pair] for pair in (losses | measures).values()]
        next_carried = {name: outputs[name] for name in features if name not in batch}
        loss = sum(total / ops.maximum(ops.stop_gradient(weight), 1e-5) for total, weight in floats[: len(losses)])
        return loss, (ops.stack([ops.stack(pair) for pair in floats]), next_carried)

    def _apply_update(self, gradients, state):
        weights, slots = self.optimizer.stateless_apply(state[1], gradients, state[0])
        return list(weights), list(slots)

    def _skip_update(self, gradients, state):
        weights, slots = state
        return weights, [x + 1 if i == self.count else x for i, x in enumerate(slots)]


def compile_lowered(lowered, level: int | None = None) -> Mapping:
    """Compiles what `lower` gave.

    Args:
        level: see `compiler.compile_step`.

    Returns:
        What `compiler.cost_of` tells of one device.
    """
    import jax

    if level is not None:
        jax.config.update("jax_optimization_level", f"O{level}")
    start = time.monotonic()
    program = lowered.compile()
    return cost_of(program.cost_analysis(), program.memory_analysis(), time.monotonic() - start)


def lower(program: Program, devices: np.ndarray, rows: int):
    """Returns the step as jax lowers it: the rows of all features lie on all devices, and every device has all weights."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(devices, (AXIS,))
    everywhere, by_rows = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (AXIS,)))

    def like(sharding, shape: Callable = lambda x: x.shape):
        return lambda x: jax.ShapeDtypeStruct(shape(x), jax.dtypes.canonicalize_dtype(x.dtype), sharding=sharding)

    count = rows * devices.size
    carried = program.backbone.initial_memory(1) if program.carries else {}
    batches = [
        jax.tree.map(like(by_rows, lambda x: (count, *x.shape[1:])), dict(part)) for part in (carried, program.row)
    ]
    state = jax.tree.map(like(everywhere), program.state())
    kept = jax.tree.map(lambda _: everywhere, state), dict.fromkeys(carried, by_rows), everywhere
    return jax.jit(program.step, donate_argnums=(0, 1), out_shardings=kept).lower(state, *batches)
