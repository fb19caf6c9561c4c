"""Losses and metrics as (sum, weight), never as means, so that those of replicas and micro-batches add up: exactly, but for
`area_under_roc`, which compares what is computed at once."""

import math

import keras
import numpy as np
from keras import ops

from xmodels.layers.compilation import compiled_form, is_worth_compiling

OTHERS, ALL = SMOOTHED_OVER = "others", "all"  # the classes that smoothing spreads probability over


def weighted_cross_entropy(labels, logits, weights):
    """Returns softmax cross-entropy in nats.

    Args:
        labels: int, shape S.
        logits: float32, shape S + (C,).
        weights: float, shape S.

    Returns:
        (sum of weighted losses, sum of weights), scalars.
    """
    return _weighted(cross_entropy(labels, logits), weights)


def score_classes(labels, logits, weights):
    """Returns `weighted_cross_entropy` and `weighted_accuracy`, which share what they compute over all classes."""
    losses, _, right = compare_classes(labels, logits)
    return _weighted(losses, weights), _weighted(right, weights)


def cross_entropy(labels, logits, smoothing: float = 0.0, ignored: int | None = None):
    """Returns softmax cross-entropy in nats of labels int, shape S, and logits float32, shape S + (C,): float32, shape S.

    Args:
        smoothing, ignored: as in `smoothed_cross_entropy`, but the entropy of the target is not subtracted.
    """
    return compare_classes(labels, logits, smoothing, ignored)[0]


def compare_classes(labels, logits, smoothing: float = 0.0, ignored: int | None = None):
    """Returns `cross_entropy`; the same without smoothing and without gradient; and 1 where the label is the likeliest class (the
    first one of several), else 0: float32, shape S each.

    There is one pass over the classes beside the softmax, which finds the likeliest. The gradient reuses the probabilities of the
    forward pass and updates one of the C columns of each row. TensorFlow's own kernel computes every exponential twice, one at a
    time, which takes 5% of a training step of BERT-mini; the gradient of a gather from `log_softmax` takes an eighth of a step of
    a small MASS.
    """
    classes = logits.shape[-1]
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))  # (N,)
    places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)  # (N, 2)
    low = share_of_others(smoothing, classes, ignored)
    spread = np.full(classes, low, "float32")  # the smoothed target of every class but the label
    if ignored is not None:
        spread[ignored] = 0.0

    @ops.custom_gradient
    def found_of(rows):
        pull = compiled_form(_pulled) if not smoothing and is_worth_compiling(rows.shape) else None
        probabilities = ops.softmax(rows, axis=-1)  # (N, C)
        best = _likeliest(probabilities)  # (N,)
        of_label, of_best = (_at(rows, each) for each in (labels, best))
        # The log of the sum of exponentials, from the most probable class: its probability is never below 1 / C.
        log_sum = of_best - ops.log(_at(probabilities, best))
        losses = plain = log_sum - of_label
        if smoothing:
            everywhere = ops.sum(rows, axis=-1) - (0.0 if ignored is None else rows[:, ignored])
            losses = (1.0 - smoothing - low) * plain + (smoothing + low) * log_sum - low * everywhere

        def gradient(*args, upstream=None):
            upstream = (args[-1] if upstream is None else upstream)[0]  # (N,), of the losses
            if pull:
                return pull(probabilities, labels, upstream)
            at_label, others = _at(probabilities, labels) - 1.0, probabilities
            if smoothing:
                at_label, others = at_label + smoothing + low - ops.take(spread, labels), others - spread
            return ops.scatter_update(others * ops.expand_dims(upstream, -1), places, at_label * upstream)

        return ops.stack([losses, plain, ops.cast(ops.equal(best, labels), losses.dtype)]), gradient

    found = ops.reshape(found_of(ops.reshape(logits, (-1, classes))), (3, *ops.shape(logits)[:-1]))
    return found[0], ops.stop_gradient(found[1]), ops.stop_gradient(found[2])


def _pulled(probabilities, labels, upstream):
    """Returns the gradient of cross-entropies by logits, given probabilities (N, C), labels (N,), and the gradient by them (N,).

    To scatter instead, TensorFlow copies all numbers once more.
    """
    is_label = ops.expand_dims(labels, -1) == ops.arange(probabilities.shape[-1], dtype="int32")
    return ops.where(is_label, probabilities - 1.0, probabilities) * ops.expand_dims(upstream, -1)


def _weighted(values, weights):
    """Returns (sum of weighted values, sum of weights), scalars."""
    weights = ops.cast(weights, values.dtype)
    return ops.sum(values * weights), ops.sum(weights)


def _at(rows, classes):
    """Returns the numbers of rows (N, C) at classes (N,)."""
    return ops.squeeze(ops.take_along_axis(rows, ops.expand_dims(classes, -1), axis=-1), -1)


def _likeliest(probabilities):
    """Returns `argmax` over the classes of probabilities (N, C), the first one if several are equal: int32 (N,).

    Keras' `argmax` tells 0.0 and -0.0 apart, which makes it three times as slow. Probabilities are never negative, and such floats
    are ordered like the integers that their bits encode.
    """
    if keras.backend.standardize_dtype(probabilities.dtype) == "float32":
        probabilities = ops.view(probabilities, "int32")
    return ops.cast(ops.argmax(probabilities, axis=-1), "int32")


def share_of_others(smoothing: float, classes: int, ignored: int | None) -> float:
    """Returns the probability that a smoothed target gives to each class other than the label and `ignored`, if given."""
    return smoothing / others_than_the_label(classes, ignored) if smoothing else 0.0


def others_than_the_label(classes: int, ignored: int | None) -> int:
    """Returns how many classes there are beside the label and `ignored`, if given."""
    return classes - (1 if ignored is None else 2)


def weighted_accuracy(labels, logits, weights):
    """Returns how often the largest logit is that of the label. Arguments and result as in `weighted_cross_entropy`."""
    weights = ops.cast(weights, "float32")
    right = ops.cast(ops.equal(_largest(logits), ops.cast(labels, "int32")), "float32")
    return ops.sum(right * weights), ops.sum(weights)


def whole_row_accuracy(labels, logits, weights, row_weights):
    """Returns how often the largest logits of a row are its labels at every position whose weight is not 0.

    Args:
        labels, logits, weights: as in `weighted_cross_entropy`, with S = (B, T).
        row_weights: float (B,).

    Returns:
        (sum of the weights of the rows that are right, sum of `row_weights`), scalars.
    """
    right = ops.logical_or(ops.equal(_largest(logits), ops.cast(labels, "int32")), ops.equal(weights, 0))
    row_weights = ops.cast(row_weights, "float32")
    return ops.sum(ops.cast(ops.all(right, axis=-1), "float32") * row_weights), ops.sum(row_weights)


def area_under_roc(labels, scores, weights):
    """Returns how often a 1 has a higher score than a 0: the area under the ROC curve. Equal scores count half.

    It is of the pairs in what is computed at once: the part of a batch that one device has, or a micro-batch of it. Sums add up to
    the mean over such pairs.

    Args:
        labels: int, shape S, 0 or 1.
        scores, weights: float, shape S.

    Returns:
        (sum of the weights of the pairs that are in order, sum of the weights of all pairs), scalars float32.
    """
    labels, scores, weights = (ops.reshape(ops.cast(x, "float32"), (-1,)) for x in (labels, scores, weights))
    ones, zeros = labels * weights, (1.0 - labels) * weights

    def in_order(scores, ones, zeros):
        order = ops.argsort(scores)
        return ops.sum(ops.take(ones, order) * ops.cumsum(ops.take(zeros, order)))

    # Sorted from both ends, by a stable sort: of equal scores each zero is before each one once.
    found = in_order(scores, ones, zeros) + in_order(*(ops.flip(x) for x in (scores, ones, zeros)))
    return 0.5 * found, ops.sum(ones) * ops.sum(zeros)


def _largest(logits):
    """Returns `argmax` over the classes, the first one if several are equal: float32, shape S + (C,) -> int32, shape S.

    Keras' `argmax` tells 0.0 and -0.0 apart, which makes it three times as slow. The distances from the largest logit are
    never negative, and such floats are ordered like the integers that their bits encode.
    """
    distance = ops.max(logits, axis=-1, keepdims=True) - logits
    return ops.argmin(ops.view(distance, "int32"), axis=-1)


def smoothed_cross_entropy(labels, logits, weights, smoothing: float, ignored: int | None = None, over: str = OTHERS):
    """Returns cross-entropy with label smoothing: 1 - `smoothing` on the label, the rest spread evenly over the other C - 1
    classes.

    The class `ignored`, if given, gets none of it. The entropy of the smoothed target is subtracted, so that a perfect
    prediction costs 0 (tensor2tensor's `padded_cross_entropy`). Other arguments and the result as in `weighted_cross_entropy`.

    Args:
        over: "others", or "all" to spread `smoothing` over all C classes, the label among them, as Szegedy et al. (2016, section
            7) and PyTorch do.
    """
    return score_smoothed(labels, logits, weights, smoothing, ignored, over)[0]


def score_smoothed(labels, logits, weights, smoothing: float, ignored: int | None = None, over: str = OTHERS):
    """Returns `smoothed_cross_entropy`, `weighted_cross_entropy` and `weighted_accuracy`, which share what they compute over all
    classes; the second one has no gradient."""
    if over == ALL:
        others = others_than_the_label(logits.shape[-1], ignored)
        smoothing *= others / (others + 1)
    low = share_of_others(smoothing, logits.shape[-1], ignored)
    losses, plain, right = compare_classes(labels, logits, smoothing, ignored)
    if smoothing:
        losses = losses + (1.0 - smoothing) * math.log(1.0 - smoothing) + smoothing * math.log(low)
    return _weighted(losses, weights), _weighted(plain, weights), _weighted(right, weights)
