"""How much memory training will take, read off the graph before anything is trained.

It is an estimate: buffers that live for a moment, the copies of a compiler and what the allocator keeps come on top.
"""

import math

import tensorflow as tf

from xmodels.layers.rematerialization import rematerialized
from xmodels.training.watching.flops import trace

VIEWS = {
    "Reshape",
    "Identity",
    "ExpandDims",
    "Squeeze",
    "StopGradient",
    "PreventGradient",
}  # share their input's memory
HELD = {"Placeholder", "ReadVariableOp", "Const", "VarHandleOp", "Shape", "Size"}  # weights, inputs, numbers


def training_memory(learner, batch: dict) -> dict[str, int]:
    """Returns bytes on one device, by what they are for.

    Args:
        batch: a global batch, with static shapes; a device computes its share of it, by micro-batches.
    """
    parts = learner.strategy.num_replicas_in_sync * learner.memory.micro_batches
    share = {name: value[: max(1, len(value) // parts)] for name, value in batch.items()}
    copies = 2 if learner.memory.micro_batches > 1 else 1  # the sum, and the gradients of a micro-batch
    return {
        "weights": _bytes(
            [*learner.backbone.weights, *learner.objective.weights, *learner.first_objective.fixed_weights]
        ),
        "gradients": copies * _bytes(learner.variables),
        "optimizer": _bytes(learner.optimizer.variables),
        "moving average and loss scale": _bytes(learner.further_variables.values()),
        "kept for the backward pass": kept_for_backward(
            learner.backbone, learner.first_objective, share, learner.memory.rematerialize
        ),
    }


def _bytes(variables) -> int:
    return sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables)


def kept_for_backward(backbone, objective, batch: dict, rematerialize: bool = False) -> int:
    """Returns bytes that the forward pass of a batch must keep, because the backward pass reads them.

    With `rematerialize` what one block computes again comes on top, for as long as its gradients take.
    """

    def loss(features):
        with rematerialized(rematerialize):
            _, losses, _ = objective.run(backbone, features, training=True)
        return tf.add_n([total for total, _ in losses.values()])

    return kept_bytes(loss, backbone.trainable_variables + objective.trainable_variables, batch)


def kept_bytes(loss, variables, batch: dict) -> int:
    """Returns the same of any function of a batch: results of the forward pass that operations of the backward pass read."""
    border = []

    def passes(features):
        with tf.GradientTape() as tape:
            value = loss(features)
        border.append(len(tf.compat.v1.get_default_graph().get_operations()))
        return tape.gradient(value, [v.value for v in variables], unconnected_gradients="zero")

    operations = trace(passes, batch).get_operations()
    forward = {operation.name for operation in operations[: border[0]]}
    behind = (x for operation in operations[border[0] :] for x in operation.inputs if x.op.name in forward)
    read = {origin.ref(): origin for origin in map(_origin, behind)}  # each once
    return sum(_size(tensor) for tensor in read.values() if tensor.op.type not in HELD)


def _origin(tensor):
    """Returns the tensor whose memory this one shows."""
    while tensor.op.type in VIEWS:
        tensor = tensor.op.inputs[0]
    return tensor


def _size(tensor) -> int:
    """Returns bytes; an unknown dimension counts as 1."""
    return math.prod(axis or 1 for axis in tensor.shape.as_list()) * tensor.dtype.size if tensor.shape.rank else 0
