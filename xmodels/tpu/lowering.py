"""The whole training step of a Learner as StableHLO, without a device that could run it.

TensorFlow traces forward, backward, the sum over the replicas, clipping and the optimizer's update into one program, as it
would for a TPU. Three things differ from what TensorFlow gives to a TPU:

- `Slice` is the strategy: the step runs as one of its replicas, whose sums are XLA's all-reduce over all devices.
- `mhlo.copy`, which TensorFlow writes for every updated weight, is unknown to the compilers of today. It is an identity, and
  `stablehlo.optimization_barrier` is one that they know.
- Boolean constants are written with eight elements a byte by TensorFlow 2.21, and read with one by the MLIR of jaxlib 0.10.
"""

import dataclasses
import math
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_all_reduce  # tf.raw_ops leaves it out

from xmodels.tpu.compiler import DoesNotCompile
from xmodels.training.step.carried import Carried
from xmodels.training.step.learner import Learner

COPY = re.compile(r"mhlo\.copy (%\S+) : ")
BOOLEANS = re.compile(r'dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xi1>')
UNSUPPORTED = re.compile(r"Detected unsupported operations[^:]*: (.*?)(?:\{\{node|\n|$)")


class Replica(tf.distribute.ReplicaContext):
    """One of several devices that take a step together, as the step sees it."""

    def __init__(self, num_devices: int):
        super().__init__(tf.distribute.get_strategy(), replica_id_in_sync_group=0)
        self.num_devices = num_devices

    @property
    def num_replicas_in_sync(self) -> int:
        return self.num_devices

    def all_reduce(self, reduce_op, value, options=None):
        """Returns the sum over all devices, of every tensor in `value`."""
        if self.num_devices == 1:
            return value
        everyone = [list(range(self.num_devices))]
        return tf.nest.map_structure(lambda x: xla_all_reduce(x, everyone, "Add", "CrossReplica"), value)

    def all_gather(self, value, axis, options=None):
        """Returns the values of all devices one behind the other: a sum in which each has zeros in the places of the others."""
        others = (self.num_devices - 1) * value.shape[axis]
        return self.all_reduce(None, tf.pad(value, [[0, others if i == axis else 0] for i in range(value.shape.rank)]))


@dataclasses.dataclass(frozen=True)
class Slice:
    """What a Learner needs of a strategy, for devices that are not there: only traced, never run."""

    num_replicas_in_sync: int

    def run(self, function, args=()):
        """Traces `function` as one replica."""
        with Replica(self.num_replicas_in_sync):
            return function(*args)


def program(learner: Learner) -> Callable:
    """Returns the whole step of one replica on a batch, as one program. The learner's strategy must be a `Slice`.

    It is all that `Learner._step` has the devices do; what its host does, clock, logs and guard, is left out. Trained for real the
    update is a program of its own, which the host starts when it has seen that the gradients are finite.
    """

    (stream,) = learner.passes.values()

    @tf.function(jit_compile=True, autograph=False)
    def step(batch):
        run = learner.strategy.run
        gradients, sums, norms, finite, carried = run(learner._replica_gradients, (stream, batch))
        if stream.carried:
            stream.carried.assign(carried)
        tf.cond(finite, lambda: run(learner._update, (stream, gradients)), lambda: run(learner._skip))
        return sums, norms, finite

    return step


def stablehlo(learner: Learner, batch: dict[str, tf.Tensor]) -> str:
    """Returns the text of that program for a batch like `batch`.

    Raises:
        DoesNotCompile: XLA has no form of an operation; the message names it.
    """
    (stream,) = learner.passes.values()
    if stream.carried:  # each device has the memory of all rows
        rows = len(next(iter(batch.values()))) * learner.strategy.num_replicas_in_sync
        stream.carried = Carried(learner.backbone, rows, learner.memory.micro_batches)
    step = program(learner)
    try:
        with tf.device("CPU"):  # or it would be lowered for a GPU, where there is one
            text = step.experimental_get_compiler_ir(batch)(stage="stablehlo")
    except (ValueError, tf.errors.OpError) as error:
        found = UNSUPPORTED.search(str(error))
        if not found:
            raise
        raise DoesNotCompile(f"XLA cannot compile the step: {found[1].strip()}.") from None
    return BOOLEANS.sub(_unpack_booleans, COPY.sub(r"stablehlo.optimization_barrier \1 : ", text))


def _unpack_booleans(constant: re.Match) -> str:
    """Returns a boolean constant with one element a byte."""
    packed, count = bytes.fromhex(constant[1]), math.prod(map(int, constant[2].split("x")))
    if len(packed) == count:
        return constant[0]
    values = np.unpackbits(np.frombuffer(packed, np.uint8), count=count, bitorder="little")
    return f'dense<"0x{values.tobytes().hex().upper()}"> : tensor<{constant[2]}xi1>'
