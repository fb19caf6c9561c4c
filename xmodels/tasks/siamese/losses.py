"""The losses of vectors. All are (sum, weight), in float32; `weights` (B,) is 0 on rows that only fill up a batch.

Vectors are (B, S, D): the sides of an example, anchor or first text, positive or second text, and perhaps a hard negative.
"""

import keras
from keras import ops

TINY = 1e-12  # under roots, so that zero vectors have a cosine, 0, and a gradient
NEVER = -1e9  # the score of a candidate that does not count
FAR = 1e9  # the distance of a pair that does not count


def normalized(vectors):
    """Vectors of length 1; zeros stay zeros."""
    return vectors / ops.sqrt(ops.sum(ops.square(vectors), axis=-1, keepdims=True) + TINY)


def cosine(first, second):
    """Returns (..., D), (..., D) -> (...)"""
    return ops.sum(normalized(first) * normalized(second), axis=-1)


def distance(first, second):
    """Returns euclidean: (..., D), (..., D) -> (...)"""
    return ops.sqrt(ops.sum(ops.square(first - second), axis=-1) + TINY)


def squared_cosine_error(similarity, scores, weights):
    """Returns the square of cosine less score, both (B,) (Reimers and Gurevych, 2019, section 3)."""
    return ops.sum(ops.square(similarity - scores) * weights), ops.sum(weights)


def cosine_distance(first, second):
    """Returns 1 - cosine: (..., D), (..., D) -> (...)"""
    return 1.0 - cosine(first, second)


def contrastive(distances, matches, weights, margin: float):
    """Returns half the square of the distance where texts match, half the square of what it lacks of the margin where they do
    not (Hadsell et al., 2006, equation 4). `distances` and `matches` are (B,), the latter 0 or 1."""
    return ops.sum(_contrastive(distances, matches, margin) * weights), ops.sum(weights)


def online_contrastive(distances, matches, weights, margin: float):
    """Returns `contrastive` of the hard pairs of a batch only: matching ones that are farther apart than the nearest pair that
    does not match, and such ones that are nearer than the farthest matching pair (as in sentence-transformers).

    Where a batch has pairs of one kind only, those beyond their mean count. The weight is that of all pairs.
    """
    there = weights > 0
    matching = ops.logical_and(matches > 0.5, there)
    other = ops.logical_and(matches <= 0.5, there)
    farthest = ops.where(ops.any(matching), ops.max(ops.where(matching, distances, -1.0)), _mean(distances, other))
    nearest = ops.where(ops.any(other), ops.min(ops.where(other, distances, FAR)), _mean(distances, matching))
    hard = ops.logical_or(ops.logical_and(matching, distances > nearest), ops.logical_and(other, distances < farthest))
    losses = _contrastive(distances, matches, margin) * ops.cast(hard, "float32")
    return ops.sum(losses * weights), ops.sum(weights)


def triplet(vectors, weights, margin: float):
    """Returns what the distance of anchor and negative lacks of that of anchor and positive plus a margin (Reimers and
    Gurevych, 2019)."""
    anchor, positive, negative = (vectors[:, side] for side in range(3))
    losses = ops.relu(distance(anchor, positive) - distance(anchor, negative) + margin)
    return ops.sum(losses * weights), ops.sum(weights)


def multiple_negatives(vectors, token_ids, weights, scale: float, symmetric: bool):
    """Returns cross-entropy of a softmax over the second texts of a batch, and its hard negatives, of which the own one is
    right (Henderson et al., 2017, section 4.4). The scores are scaled cosines.

    A candidate whose text is that of the anchor or of its own second text is no negative, and neither is the second text of
    an equal anchor.

    Args:
        vectors: (B, S, D), S 2 or 3.
        token_ids: (B, S, L), which tell whether texts are equal.
        symmetric: whether each second text also looks for its first text among all of them, and the mean of both counts.
    """
    sides = vectors.shape[1]
    units = normalized(vectors)
    candidates = ops.concatenate([units[:, side] for side in range(1, sides)], axis=0)  # (C, D), C = (S - 1) B
    candidate_ids = ops.concatenate([token_ids[:, side] for side in range(1, sides)], axis=0)  # (C, L)
    anchor_ids, positive_ids = token_ids[:, 0], token_ids[:, 1]  # (B, L)
    rows = ops.arange(ops.shape(vectors)[0], dtype="int32")  # (B,)
    own = ops.equal(ops.expand_dims(rows, 1), ops.arange(ops.shape(candidates)[0], dtype="int32"))  # (B, C)
    same_anchor = _equal(anchor_ids, anchor_ids)  # (B, B)
    same_anchor = ops.concatenate([same_anchor, *[ops.zeros_like(same_anchor)] * (sides - 2)], axis=1)  # (B, C)
    excluded = ops.logical_or(_equal(anchor_ids, candidate_ids), _equal(positive_ids, candidate_ids))
    excluded = ops.logical_or(ops.logical_or(excluded, same_anchor), ops.tile(weights <= 0, sides - 1))
    total = _softmax_loss(ops.matmul(units[:, 0], ops.transpose(candidates)) * scale, rows, own, excluded, weights)
    if symmetric:
        same = ops.logical_or(_equal(positive_ids, positive_ids), _equal(positive_ids, anchor_ids))
        same = ops.logical_or(ops.logical_or(same, _equal(anchor_ids, anchor_ids)), weights <= 0)
        back = ops.matmul(units[:, 1], ops.transpose(units[:, 0])) * scale  # (B, B)
        total = (total + _softmax_loss(back, rows, own[:, : ops.shape(back)[0]], same, weights)) / 2
    return total, ops.sum(weights)


def _softmax_loss(scores, rows, own, excluded, weights):
    """Returns the sum over rows (B,) of the cross-entropy of scores (B, C) whose right column is the row's own number."""
    scores = ops.where(ops.logical_and(excluded, ops.logical_not(own)), NEVER, scores)
    losses = keras.losses.sparse_categorical_crossentropy(rows, scores, from_logits=True)
    return ops.sum(losses * weights)


def _contrastive(distances, matches, margin: float):
    apart = ops.square(ops.relu(margin - distances))
    return 0.5 * (matches * ops.square(distances) + (1.0 - matches) * apart)


DISTANCES = {"cosine": cosine_distance, "euclidean": distance}  # of `PairLoss.distance`


def _mean(values, there):
    """Returns the mean of those that are there; 0 where there is none."""
    counted = ops.cast(there, "float32")
    return ops.sum(values * counted) / ops.maximum(ops.sum(counted), 1.0)


def _equal(first, second):
    """Returns whether rows of tokens are equal: (B, L), (C, L) -> bool (B, C)."""
    return ops.all(ops.equal(ops.expand_dims(first, 1), ops.expand_dims(second, 0)), axis=-1)
