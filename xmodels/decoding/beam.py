"""Beam search as tensor2tensor does it (`utils/beam_search.py`): alive and finished texts in pools of their own.

Each step extends the alive texts of a row to the 2 K best candidates. Of these at least K do not end, and are the next alive
ones; those that end compete with the finished ones by log-probability / penalty(length).
"""

from collections.abc import Callable

import keras
from keras import ops

NEVER = -1e7


def gnmt_penalty(alpha: float) -> Callable:
    """((5 + length) / 6) ** alpha (Wu et al., 2016, equation 14); 1 where alpha is 0."""
    return lambda length: ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def mean_penalty(power: float) -> Callable:
    """length ** power, as Hugging Face and fairseq have it: 1 gives the mean log-probability of a token."""
    return lambda length: ops.power(ops.cast(length, "float32"), power)


def beam_search(
    step: Callable, state, start_ids, num_beams: int, max_length: int, end_id: int,
    penalty: Callable | None = None, stop_early: bool = True, limits=None,
):  # fmt: skip
    """The most probable continuations.

    Args:
        step: (token_ids int (N, max_length + 1), position, state) -> (logits (N, V), state) of the token behind
            `position`; N is B K, and every tensor of `state` has N as its first axis.
        state: of the B rows; each is repeated K times here.
        start_ids: int (B,).
        max_length: most tokens behind the first, with the end token.
        penalty: (length) -> the divisor of a score; by default 1.
        stop_early: end when no alive text can beat the best finished one of its row; else the worst finished one.
        limits: int (B,), most tokens of each row, at most `max_length`, which they are by default.

    Returns:
        int (B, K, max_length + 1) texts with their start token, best first, padded with 0, and float32 (B, K) scores.
        Of a row without any finished text, the alive ones.
    """
    penalty = penalty or gnmt_penalty(0.0)
    batch, beams = start_ids.shape[0], num_beams
    if batch is None:
        batch = ops.shape(start_ids)[0]
    limits = ops.full((batch,), max_length, dtype="int32") if limits is None else ops.cast(limits, "int32")

    def flat(x):
        return ops.reshape(x, (batch * beams, *ops.shape(x)[2:]))

    def choose(x, index):
        """Rows (B, K, ...) by index (B, N)."""
        index = ops.reshape(index, (*ops.shape(index), *(1 for _ in x.shape[2:]))) if len(x.shape) > 2 else index
        shape = (*ops.shape(index)[:2], *ops.shape(x)[2:])
        return ops.take_along_axis(x, ops.broadcast_to(index, shape), axis=1)

    def reorder(x, parents):
        return ops.take(x, parents, axis=0)

    def going_on(position, alive_ids, alive, ended_ids, ended, has_ended, state):
        best = alive[:, 0] / penalty(limits)  # the most that an alive text can reach
        # Rows that are not full count with the value of an empty place.
        bound = ops.max(ended, axis=1) if stop_early else ops.min(ops.where(has_ended, ended, NEVER), axis=1)
        bound = ops.where(ops.any(has_ended, axis=1), bound, NEVER)
        return ops.any(ops.logical_and(position < limits, best > bound))

    def within(position, new, old):
        """`new` in rows that may still grow, elsewhere `old`."""
        return ops.where(ops.reshape(position < limits, (-1, *(1 for _ in new.shape[1:]))), new, old)

    def extend(position, *old_and_state):
        *old, state = old_and_state
        alive_ids, alive, ended_ids, ended, has_ended = old
        logits, state = step(flat(alive_ids), position, state)
        size = logits.shape[-1]
        following = ops.reshape(ops.log_softmax(ops.cast(logits, "float32"), axis=-1), (batch, beams, size))
        total = ops.reshape(ops.expand_dims(alive, 2) + following, (batch, beams * size))
        scores, where = ops.top_k(total / penalty(position + 1), 2 * beams)  # (B, 2 K)
        totals = ops.take_along_axis(total, where, axis=1)
        parents, tokens = where // size, ops.cast(where % size, "int32")
        texts = choose(alive_ids, parents)  # (B, 2 K, T)
        place = ops.equal(ops.arange(max_length + 1), position + 1)
        texts = ops.where(place, ops.expand_dims(tokens, 2), texts)
        ends = ops.equal(tokens, end_id)
        _, kept = ops.top_k(ops.where(ends, scores + NEVER, scores), beams)
        alive_ids, alive = choose(texts, kept), ops.take_along_axis(totals, kept, axis=1)
        rows = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * beams
        sources = ops.reshape(rows + ops.cast(ops.take_along_axis(parents, kept, axis=1), "int32"), (-1,))
        state = keras.tree.map_structure(lambda x: reorder(x, sources), state)
        all_ids = ops.concatenate([ended_ids, texts], axis=1)  # (B, 3 K, T)
        all_scores = ops.concatenate([ended, ops.where(ends, scores, scores + NEVER)], axis=1)
        all_ended = ops.concatenate([has_ended, ends], axis=1)
        best_scores, best = ops.top_k(all_scores, beams)
        new = alive_ids, alive, choose(all_ids, best), best_scores, ops.take_along_axis(all_ended, best, axis=1)
        return position + 1, *(within(position, *pair) for pair in zip(new, old, strict=True)), state

    start = ops.reshape(ops.cast(start_ids, "int32"), (-1, 1, 1))
    first = ops.equal(ops.arange(max_length + 1), 0)
    alive_ids = ops.where(first, ops.repeat(start, beams, axis=1), 0)  # (B, K, T)
    # Of K equal texts only the first counts at the start.
    alive = ops.broadcast_to(ops.where(ops.equal(ops.arange(beams), 0), 0.0, -float("inf")), (batch, beams))
    ended_ids, ended = ops.zeros_like(alive_ids), ops.full((batch, beams), NEVER, dtype="float32")
    has_ended = ops.zeros((batch, beams), dtype="bool")
    state = keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=0), state)
    variables = (ops.convert_to_tensor(0, "int32"), alive_ids, alive, ended_ids, ended, has_ended, state)
    found = ops.while_loop(going_on, extend, variables, maximum_iterations=max_length)
    position, alive_ids, alive, ended_ids, ended, has_ended, _ = found
    some = ops.any(has_ended, axis=1, keepdims=True)  # (B, 1)
    ids = ops.where(ops.expand_dims(some, 2), ended_ids, alive_ids)
    return ids, ops.where(some, ended, alive / penalty(ops.expand_dims(ops.minimum(position, limits), 1)))
