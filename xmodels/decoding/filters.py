"""Functions that change the logits (B, V) of the next token before one is chosen, such as top-k. A list is applied in order.

Each takes (logits, token_ids int (B, T), position), where the first `position` tokens are the text so far, and returns logits.
`position` is int (), or (B,) where texts have different lengths.
"""

import keras
import numpy as np
from keras import ops

FORBIDDEN = -1e9


def temperature(value: float):
    """Divides the logits by `value`; below 1, probable tokens become more probable."""
    return lambda logits, token_ids, position: logits / value


def top_k(k: int):
    """Keeps the k largest logits, and those equal to the smallest of them (openai/gpt-2, `sample.py`)."""

    def change(logits, token_ids, position):
        smallest = ops.top_k(logits, min(k, logits.shape[-1]))[0][:, -1:]  # (B, 1)
        return ops.where(logits < smallest, FORBIDDEN, logits)

    return change


def top_p(p: float):
    """Keeps the fewest most probable tokens whose probabilities sum to at least p (Holtzman et al., 2020).

    openai/gpt-2's code keeps one token less: it leaves out the one that reaches p.
    """

    def change(logits, token_ids, position):
        ordered = ops.flip(ops.sort(logits, axis=-1), axis=-1)
        probabilities = ops.softmax(ordered, axis=-1)
        before = ops.cumsum(probabilities, axis=-1) - probabilities
        smallest = ops.min(ops.where(before < p, ordered, float("inf")), axis=-1, keepdims=True)
        return ops.where(logits < smallest, FORBIDDEN, logits)

    return change


def repetition_penalty(penalty: float):
    """Makes tokens of the text so far less probable: positive logits / penalty, negative * penalty (Keskar et al., 2019)."""

    def change(logits, token_ids, position):
        weaker = ops.where(logits > 0, logits / penalty, logits * penalty)
        real = ops.arange(token_ids.shape[1]) < _column(position)  # (1 or B, T)
        seen = _mark_tokens(
            token_ids, ops.cast(ops.broadcast_to(real, ops.shape(token_ids)), "float32"), logits.shape[-1]
        )
        return ops.where(seen, weaker, logits)

    return change


def no_repeated_ngrams(n: int):
    """Forbids tokens that would repeat an n-gram of the text so far (Paulus et al., 2017)."""

    def change(logits, token_ids, position):
        starts = ops.shape(token_ids)[1] - n + 1
        if not isinstance(starts, int):  # in an exported graph the length is dynamic
            starts = ops.maximum(starts, 0)
        elif starts < 1:
            return logits
        rows, ends = (
            ops.shape(token_ids)[0],
            ops.broadcast_to(_column(position), (ops.shape(token_ids)[0], 1)),
        )  # (B, 1)
        repeated = ops.broadcast_to(ops.arange(starts) + n <= ends, (rows, starts))
        for offset in range(n - 1):  # its first n - 1 tokens equal the last n - 1 tokens of the text
            last = ops.take_along_axis(token_ids, ops.maximum(ends - (n - 1) + offset, 0), axis=1)  # (B, 1)
            here = ops.equal(token_ids[:, offset : offset + starts], last)
            repeated = ops.logical_and(repeated, here)
        forbidden = _mark_tokens(token_ids[:, n - 1 :], ops.cast(repeated, "float32"), logits.shape[-1])
        return ops.where(forbidden, FORBIDDEN, logits)

    return change


def forbid(token_ids):
    """Forbids these tokens, such as padding."""

    def change(logits, texts, position):
        forbidden = np.isin(np.arange(logits.shape[-1]), token_ids)  # (V,)
        return ops.where(forbidden, FORBIDDEN, logits)

    return change


def end_after(lengths, end_id: int):
    """Ends texts at `lengths`, int (B,), including the prompt: from there on only `end_id` is allowed, with log-probability 0."""

    def change(logits, token_ids, position):
        others = ops.arange(logits.shape[-1]) != end_id  # (V,)
        over = ops.expand_dims(position >= lengths, 1)  # (B, 1)
        return ops.where(over, ops.where(others, FORBIDDEN, 0.0), logits)

    return change


def begin_with(place: int, token_id: int):
    """Forces `token_id` at position `place` of each text, from 0: all others are forbidden, and its log-probability is 0."""

    def change(logits, token_ids, position):
        others = ops.arange(logits.shape[-1]) != token_id  # (V,)
        return ops.where(ops.equal(_column(position), place), ops.where(others, FORBIDDEN, 0.0), logits)

    return change


def not_before(length: int, end_id: int):
    """Forbids `end_id` until a text has `length` tokens, including the first one."""

    def change(logits, token_ids, position):
        is_end = ops.equal(ops.arange(logits.shape[-1]), end_id)  # (V,)
        return ops.where(ops.logical_and(_column(position) < length, is_end), FORBIDDEN, logits)

    return change


def _column(position):
    """Returns a position, int () or (B,), beside rows: int (1 or B, 1)."""
    return ops.reshape(position, (-1, 1))


def _mark_tokens(token_ids, weights, vocabulary_size: int):
    """Marks tokens of the vocabulary that occur in `token_ids` (B, N) with a positive weight (B, N): bool (B, V)."""
    rows = ops.broadcast_to(ops.expand_dims(ops.arange(ops.shape(token_ids)[0]), 1), ops.shape(token_ids))
    places = ops.cast(rows * vocabulary_size + ops.cast(token_ids, rows.dtype), "int32")
    size = ops.shape(token_ids)[0] * vocabulary_size
    counts = keras.ops.scatter(ops.reshape(places, (-1, 1)), ops.reshape(weights, (-1,)), (size,))
    return ops.reshape(counts, (-1, vocabulary_size)) > 0
