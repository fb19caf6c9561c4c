"""Losses and metrics as (sum, weight), never as means: sums of replicas and micro-batches add up exactly."""

import keras
from keras import ops


def weighted_cross_entropy(labels, logits, weights):
    """Softmax cross-entropy in nats.

    Args:
        labels: int, shape S.
        logits: float32, shape S + (C,).
        weights: float, shape S.

    Returns:
        (sum of weighted losses, sum of weights), scalars.
    """
    losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    weights = ops.cast(weights, losses.dtype)
    return ops.sum(losses * weights), ops.sum(weights)


def weighted_accuracy(labels, logits, weights):
    """How often the largest logit is the label; arguments and result as in `weighted_cross_entropy`."""
    weights = ops.cast(weights, "float32")
    right = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), labels.dtype), labels), "float32")
    return ops.sum(right * weights), ops.sum(weights)
