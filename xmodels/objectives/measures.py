"""Losses and metrics as (sum, weight), never as means: sums of replicas and micro-batches add up exactly."""

import math

import numpy as np
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
    losses = cross_entropy(labels, logits)
    weights = ops.cast(weights, losses.dtype)
    return ops.sum(losses * weights), ops.sum(weights)


def cross_entropy(labels, logits, smoothing: float = 0.0, ignored: int | None = None):
    """Softmax cross-entropy in nats: int S and float32 S + (C,) -> float32 S.

    The gradient keeps the probabilities and changes them in C of one column a row. TensorFlow's own kernel computes all
    exponentials twice, number by number, which is a twentieth of a step of BERT-mini; gathered from a logarithm of the
    probabilities, the gradient is an eighth of a step of a small MASS.

    Args:
        smoothing, ignored: of the target, as of `smoothed_cross_entropy`, but its entropy is not subtracted.
    """
    classes = logits.shape[-1]
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))  # (N,)
    places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)  # (N, 2)
    low = share_of_others(smoothing, classes, ignored)
    spread = np.full(classes, low, "float32")  # what the target gives to every class, and beside it to the label
    if ignored is not None:
        spread[ignored] = 0.0

    @ops.custom_gradient
    def losses_of(rows):
        probabilities = ops.softmax(rows, axis=-1)  # (N, C)
        of_label = ops.squeeze(ops.take_along_axis(rows, places[:, 1:], axis=-1), -1)
        # The logarithm of the sum, from the likeliest class: its probability is never below 1 / C.
        log_sum = ops.max(rows, axis=-1) - ops.log(ops.max(probabilities, axis=-1))
        losses = log_sum - of_label
        if smoothing:
            everywhere = ops.sum(rows, axis=-1) - (0.0 if ignored is None else rows[:, ignored])
            losses = (1.0 - smoothing - low) * losses + (smoothing + low) * log_sum - low * everywhere

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream  # (N,)
            of_label = ops.squeeze(ops.take_along_axis(probabilities, places[:, 1:], axis=-1), -1)
            at_label, others = of_label - 1.0, probabilities
            if smoothing:
                at_label, others = at_label + smoothing + low - ops.take(spread, labels), others - spread
            # What is scattered into must have no other reader, or TensorFlow copies it.
            return ops.scatter_update(others * ops.expand_dims(upstream, -1), places, at_label * upstream)

        return losses, gradient

    return ops.reshape(losses_of(ops.reshape(logits, (-1, classes))), ops.shape(logits)[:-1])


def share_of_others(smoothing: float, classes: int, ignored: int | None) -> float:
    """What a smoothed target gives to each class but the label and the one that is ignored, if any."""
    return smoothing / (classes - (1 if ignored is None else 2)) if smoothing else 0.0


def weighted_accuracy(labels, logits, weights):
    """How often the largest logit is the label; arguments and result as in `weighted_cross_entropy`."""
    weights = ops.cast(weights, "float32")
    right = ops.cast(ops.equal(_likeliest(logits), ops.cast(labels, "int32")), "float32")
    return ops.sum(right * weights), ops.sum(weights)


def whole_row_accuracy(labels, logits, weights, row_weights):
    """How often the largest logits of a row are its labels, at all places that count.

    Args:
        labels, logits, weights: as in `weighted_cross_entropy`, of shape S = (B, T).
        row_weights: float (B,).

    Returns:
        (sum of the weights of such rows, sum of weights), scalars.
    """
    right = ops.logical_or(ops.equal(_likeliest(logits), ops.cast(labels, "int32")), ops.equal(weights, 0))
    row_weights = ops.cast(row_weights, "float32")
    return ops.sum(ops.cast(ops.all(right, axis=-1), "float32") * row_weights), ops.sum(row_weights)


def _likeliest(logits):
    """The first of the largest, float32 S + (C,) -> int32 S.

    Keras' argmax tells the two zeros apart, which costs three times the search. Numbers that are not negative have the order
    of their bits, and so has their distance from the largest.
    """
    distance = ops.max(logits, axis=-1, keepdims=True) - logits
    return ops.argmin(ops.view(distance, "int32"), axis=-1)


def smoothed_cross_entropy(labels, logits, weights, smoothing: float, ignored: int | None = None):
    """Cross-entropy against 1 - smoothing on the label and the rest spread evenly over the other C - 1 classes, but for the class
    `ignored`, where there is one.

    Less the entropy of that target, so that a perfect answer costs 0 (tensor2tensor's `padded_cross_entropy`; Szegedy et
    al., 2016). Arguments and result as in `weighted_cross_entropy`.
    """
    low = share_of_others(smoothing, logits.shape[-1], ignored)
    losses = cross_entropy(labels, logits, smoothing, ignored)
    if smoothing:
        losses = losses + (1.0 - smoothing) * math.log(1.0 - smoothing) + smoothing * math.log(low)
    weights = ops.cast(weights, losses.dtype)
    return ops.sum(losses * weights), ops.sum(weights)
