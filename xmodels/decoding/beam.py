"""Beam search as in tensor2tensor (`utils/beam_search.py`), with separate pools of alive and finished texts.

Each step extends the alive texts of a row to the 2 K best candidates. At least K of these do not end, and are the next alive
texts; those that end compete with the finished texts by log-probability / penalty(length).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from xmodels.decoding.memory import Copies, Shared, gather_texts
from xmodels.decoding.selection import highest

LOWEST = -1e7  # the score of an empty slot


def gnmt_penalty(alpha: float) -> Callable:
    """Returns ((5 + length) / 6) ** alpha (Wu et al., 2016, equation 14); 1 if alpha is 0."""
    return lambda length: ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def mean_penalty(power: float) -> Callable:
    """Returns length ** power, as in Hugging Face and fairseq: a power of 1 gives the mean log-probability per token."""
    return lambda length: ops.power(ops.cast(length, "float32"), power)


class Pools(NamedTuple):
    """Texts (B, K, T), best first, with their scores (B, K)."""

    alive_ids: Any
    alive: Any  # log-probabilities
    finished_ids: Any
    finished: Any  # log-probabilities / penalty
    is_finished: Any  # bool (B, K), False for empty slots


def beam_search(
    step: Callable, state, start_ids, num_beams: int, max_length: int, end_id: int,
    penalty: Callable | None = None, stop_early: bool = True, limits=None, prompts=None, memory: Copies | Shared | None = None,
):  # fmt: skip
    """Searches for the most probable continuations.

    Args:
        step: (token_ids int (B K, max_length + 1), position, state) -> (logits (B K, V) of the token after `position`, state).
            The state is what `memory.begin` makes of the argument `state`.
        state: the initial state of the B rows.
        start_ids: int (B,), the first token of each row.
        num_beams: K.
        max_length: most tokens after the first, including the end token.
        end_id: the token that ends a text.
        penalty: (length) -> the divisor of a log-probability; by default 1.
        stop_early: whether to stop when no alive text can beat the best finished text of its row; otherwise when none can beat
            the worst of K.
        limits: int (B,), most tokens of each row after its first, at most `max_length`; by default `max_length`.
        prompts: (int (B, max_length + 1), int (B,)), texts with which the rows begin in place of `start_ids`, and their lengths,
            at least 1. They count neither in scores nor in lengths. The search starts at the last token of the shortest one,
            so `state` must be that after the tokens before it.
        memory: how the beams share `state`; by default each has a copy.

    Returns:
        int (B, K, max_length + 1) texts with their first token, best first, padded with 0, and float32 (B, K) scores. For a row
        without a finished text, these are the alive texts.
    """
    first = start_ids if prompts is None else prompts[1]
    batch = first.shape[0]
    if batch is None:
        batch = ops.shape(first)[0]
    limits = ops.full((batch,), max_length, dtype="int32") if limits is None else ops.cast(limits, "int32")
    given = None if prompts is None else ops.cast(prompts[1], "int32") - 1
    memory = memory or Copies(num_beams, max_length)
    search = Search(
        batch, num_beams, max_length, end_id, penalty or gnmt_penalty(0.0), stop_early, limits, given, memory
    )

    def is_unfinished(position, *pools_and_state):
        return search.is_unfinished(position, Pools(*pools_and_state[:-1]))

    def extend(position, *pools_and_state):
        pools, state = Pools(*pools_and_state[:-1]), pools_and_state[-1]
        new, state = search.add_token(step, position, pools, state)
        return position + 1, *(search.within_limits(position, *pair) for pair in zip(new, pools, strict=True)), state

    position = ops.convert_to_tensor(0, "int32") if prompts is None else ops.min(given)
    starts = ops.expand_dims(start_ids, 1) if prompts is None else prompts[0]
    variables = (position, *search.initial_pools(starts), memory.begin(state, batch))
    position, *pools, _ = ops.while_loop(is_unfinished, extend, variables, maximum_iterations=max_length)
    return search.best(position, Pools(*pools))


@dataclasses.dataclass(frozen=True)
class Search:
    """The settings of a search; see `beam_search`. `given` int (B,) is the number of tokens of each prompt after its first."""

    batch: Any
    beams: int
    max_length: int
    end_id: int
    penalty: Callable
    stop_early: bool
    limits: Any
    given: Any
    memory: Copies | Shared

    def divisor(self, length):
        """Returns the penalty, () or (B,), of texts with `length` tokens after their first."""
        return self.penalty(length if self.given is None else ops.maximum(length - self.given, 1))

    def initial_pools(self, starts) -> Pools:
        """Returns pools whose alive texts begin with `starts`, int (B, S), S at most T."""
        starts = ops.pad(ops.cast(starts, "int32"), [[0, 0], [0, self.max_length + 1 - starts.shape[1]]])
        alive_ids = ops.repeat(ops.expand_dims(starts, 1), self.beams, axis=1)  # (B, K, T)
        # The K beams start equal, so only the first one counts.
        alive = ops.where(ops.equal(ops.arange(self.beams), 0), 0.0, -float("inf"))
        shape = (self.batch, self.beams)
        empty, nothing = ops.full(shape, LOWEST, dtype="float32"), ops.zeros(shape, dtype="bool")
        return Pools(alive_ids, ops.broadcast_to(alive, shape), ops.zeros_like(alive_ids), empty, nothing)

    def is_unfinished(self, position, pools: Pools):
        """Returns whether an alive text of any row may still become one of its best."""
        best = pools.alive[:, 0] / self.divisor(self.limits)  # the highest score that an alive text can reach
        if self.stop_early:
            bound = ops.max(pools.finished, axis=1)
        else:  # in rows with empty slots, the score of an empty slot
            bound = ops.min(ops.where(pools.is_finished, pools.finished, LOWEST), axis=1)
        bound = ops.where(ops.any(pools.is_finished, axis=1), bound, LOWEST)
        return ops.any(ops.logical_and(position < self.limits, best > bound))

    def add_token(self, step: Callable, position, pools: Pools, state):
        """Returns the pools after one more token, and the state of the alive texts."""
        logits, state = step(ops.reshape(pools.alive_ids, (-1, self.max_length + 1)), position, state)
        texts, ends, totals, scores, parents = self.candidates(logits, position, pools)
        _, kept = ops.top_k(ops.where(ends, scores + LOWEST, scores), self.beams)
        state = self.memory.follow(state, ops.take_along_axis(parents, kept, axis=1))
        all_ids = ops.concatenate([pools.finished_ids, texts], axis=1)  # (B, 3 K, T)
        all_scores = ops.concatenate([pools.finished, ops.where(ends, scores, scores + LOWEST)], axis=1)
        all_finished = ops.concatenate([pools.is_finished, ends], axis=1)
        finished, best = ops.top_k(all_scores, self.beams)
        # If fewer candidates than beams continue, an ended one fills a slot: -inf, so that nothing can follow its end.
        alive = ops.take_along_axis(ops.where(ends, -float("inf"), totals), kept, axis=1)
        return Pools(
            gather_texts(texts, kept), alive, gather_texts(all_ids, best), finished,
            ops.take_along_axis(all_finished, best, axis=1),
        ), state  # fmt: skip

    def candidates(self, logits, position, pools: Pools):
        """Returns the 2 K best extensions of each row by one token, int (B, 2 K, T), and, (B, 2 K) each, whether they end, their
        log-probabilities, those / penalty, and the indices of the alive texts that they extend."""
        size = logits.shape[-1]
        following = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        following = ops.reshape(following, (self.batch, self.beams, size))
        if self.given is not None:
            following = self.keep_prompts(following, position, pools)
        total = ops.reshape(ops.expand_dims(pools.alive, 2) + following, (self.batch, self.beams * size))
        totals, where = highest(total, 2 * self.beams)
        scores = totals / ops.reshape(self.divisor(position + 1), (-1, 1))
        parents, tokens = where // size, where % size
        place = ops.equal(ops.arange(self.max_length + 1), position + 1)
        texts = ops.where(place, ops.expand_dims(tokens, 2), gather_texts(pools.alive_ids, parents))
        ends = ops.equal(tokens, self.end_id)
        if self.given is not None:
            ends = ops.logical_and(ends, ops.expand_dims(position >= self.given, 1))
        return texts, ends, totals, scores, parents

    def keep_prompts(self, following, position, pools: Pools):
        """Returns log-probabilities (B, K, V) in which rows that are still in their prompt can only continue with its next token."""
        is_given = position < self.given  # (B,)

        def keep_given():
            token = ops.take(pools.alive_ids, ops.minimum(position + 1, self.max_length), axis=2)  # (B, K)
            certain = ops.equal(ops.arange(following.shape[2]), ops.expand_dims(token, 2))
            return ops.where(ops.reshape(is_given, (-1, 1, 1)), ops.where(certain, 0.0, -float("inf")), following)

        return ops.cond(ops.any(is_given), keep_given, lambda: following)

    def within_limits(self, position, new, old):
        """Returns `new` in rows that may still grow, `old` in others."""
        return ops.where(ops.reshape(position < self.limits, (-1, *(1 for _ in new.shape[1:]))), new, old)

    def best(self, position, pools: Pools):
        """Returns the finished texts of each row and their scores; for rows without any, the alive texts."""
        some = ops.any(pools.is_finished, axis=1, keepdims=True)  # (B, 1)
        ids = ops.where(ops.expand_dims(some, 2), pools.finished_ids, pools.alive_ids)
        divisor = self.divisor(ops.minimum(position, self.limits))
        return ids, ops.where(some, pools.finished, pools.alive / ops.reshape(divisor, (-1, 1)))
