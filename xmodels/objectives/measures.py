"""Losses and metrics as (sum, weight), never as means: sums of replicas and micro-batches add up exactly."""

import math

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


def smoothed_cross_entropy(labels, logits, weights, smoothing: float):
    """Cross-entropy against 1 - smoothing on the label and the rest spread evenly over the other C - 1 classes.

    Less the entropy of that target, so that a perfect answer costs 0 (tensor2tensor's `padded_cross_entropy`; Szegedy et
    al., 2016). Arguments and result as in `weighted_cross_entropy`.
    """
    classes = logits.shape[-1]
    low = smoothing / (classes - 1)
    logs = ops.log_softmax(logits, axis=-1)
    of_label = ops.squeeze(ops.take_along_axis(logs, ops.expand_dims(ops.cast(labels, "int32"), -1), axis=-1), -1)
    losses = -(1.0 - smoothing - low) * of_label - low * ops.sum(logs, axis=-1)
    if smoothing:
        losses = losses + (1.0 - smoothing) * math.log(1.0 - smoothing) + smoothing * math.log(low)
    weights = ops.cast(weights, losses.dtype)
    return ops.sum(losses * weights), ops.sum(weights)
