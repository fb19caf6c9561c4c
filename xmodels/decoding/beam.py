"""Beam search as tensor2tensor does it (`utils/beam_search.py`): alive and finished texts in pools of their own.

Each step extends the alive texts of a row to the 2 K best candidates. Of these at least K do not end, and are the next alive
ones; those that end compete with the finished ones by log-probability / penalty(length).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from xmodels.decoding.memory import Copies, Shared, chosen

LOWEST = -1e7  # the score of an empty place


def gnmt_penalty(alpha: float) -> Callable:
    """((5 + length) / 6) ** alpha (Wu et al., 2016, equation 14); 1 where alpha is 0."""
    return lambda length: ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def mean_penalty(power: float) -> Callable:
    """length ** power, as Hugging Face and fairseq have it: 1 gives the mean log-probability of a token."""
    return lambda length: ops.power(ops.cast(length, "float32"), power)


class Pools(NamedTuple):
    """Texts (B, K, T), best first, with their scores (B, K)."""

    alive_ids: Any
    alive: Any  # log-probabilities
    finished_ids: Any
    finished: Any  # log-probabilities / penalty
    is_finished: Any  # bool (B, K), False at empty places


def beam_search(
    step: Callable, state, start_ids, num_beams: int, max_length: int, end_id: int,
    penalty: Callable | None = None, stop_early: bool = True, limits=None, prompts=None, memory: Copies | Shared | None = None,
):  # fmt: skip
    """The most probable continuations.

    Args:
        step: (token_ids int (B K, max_length + 1), position, state) -> (logits (B K, V), state) of the token behind `position`,
            where `state` is what `memory` makes of the one below.
        state: of the B rows.
        start_ids: int (B,).
        max_length: most tokens behind the first, with the end token.
        penalty: (length) -> the divisor of a score; by default 1.
        stop_early: end when no alive text can beat the best finished one of its row; else the worst finished one.
        limits: int (B,), most tokens of each row behind its first, at most `max_length`, which they are by default.
        prompts: (int (B, max_length + 1), int (B,)), texts that the rows begin with in place of `start_ids`, and how many tokens
            they have, at least 1. They count neither in scores nor in lengths. The search begins at the last token of the
            shortest one, so `state` is that of the tokens before.
        memory: how the beams share `state`; by default each has a copy.

    Returns:
        int (B, K, max_length + 1) texts with their start token, best first, padded with 0, and float32 (B, K) scores.
        Of a row without any finished text, the alive ones.
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
        new, state = search.extended(step, position, pools, state)
        return position + 1, *(search.within_limits(position, *pair) for pair in zip(new, pools, strict=True)), state

    position = ops.convert_to_tensor(0, "int32") if prompts is None else ops.min(given)
    starts = ops.expand_dims(start_ids, 1) if prompts is None else prompts[0]
    variables = (position, *search.initial_pools(starts), memory.begin(state, batch))
    position, *pools, _ = ops.while_loop(is_unfinished, extend, variables, maximum_iterations=max_length)
    return search.best(position, Pools(*pools))


@dataclasses.dataclass(frozen=True)
class Search:
    """The numbers of a search, of B rows and K beams; see `beam_search`. `given` (B,) counts tokens of prompts behind the first."""

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
        """The penalty, of shape () or (B,), of texts that are so many tokens long behind their first."""
        return self.penalty(length if self.given is None else ops.maximum(length - self.given, 1))

    def initial_pools(self, starts) -> Pools:
        """Pools of texts that begin with (B, S), S at most T."""
        starts = ops.pad(ops.cast(starts, "int32"), [[0, 0], [0, self.max_length + 1 - starts.shape[1]]])
        alive_ids = ops.repeat(ops.expand_dims(starts, 1), self.beams, axis=1)  # (B, K, T)
        # Of K equal texts only the first counts at the start.
        alive = ops.where(ops.equal(ops.arange(self.beams), 0), 0.0, -float("inf"))
        shape = (self.batch, self.beams)
        empty, nothing = ops.full(shape, LOWEST, dtype="float32"), ops.zeros(shape, dtype="bool")
        return Pools(alive_ids, ops.broadcast_to(alive, shape), ops.zeros_like(alive_ids), empty, nothing)

    def is_unfinished(self, position, pools: Pools):
        """Whether an alive text of some row may still become one of its best."""
        best = pools.alive[:, 0] / self.divisor(self.limits)  # the most that an alive text can reach
        if self.stop_early:
            bound = ops.max(pools.finished, axis=1)
        else:  # rows that are not full count with the value of an empty place
            bound = ops.min(ops.where(pools.is_finished, pools.finished, LOWEST), axis=1)
        bound = ops.where(ops.any(pools.is_finished, axis=1), bound, LOWEST)
        return ops.any(ops.logical_and(position < self.limits, best > bound))

    def extended(self, step: Callable, position, pools: Pools, state):
        """The pools one token later, and the state of what is alive then."""
        logits, state = step(ops.reshape(pools.alive_ids, (-1, self.max_length + 1)), position, state)
        texts, ends, totals, scores, parents = self.candidates(logits, position, pools)
        _, kept = ops.top_k(ops.where(ends, scores + LOWEST, scores), self.beams)
        state = self.memory.follow(state, ops.take_along_axis(parents, kept, axis=1))
        all_ids = ops.concatenate([pools.finished_ids, texts], axis=1)  # (B, 3 K, T)
        all_scores = ops.concatenate([pools.finished, ops.where(ends, scores, scores + LOWEST)], axis=1)
        all_finished = ops.concatenate([pools.is_finished, ends], axis=1)
        finished, best = ops.top_k(all_scores, self.beams)
        # Where fewer texts go on than there are beams, one that has ended takes a place among them: nothing may follow its end.
        alive = ops.take_along_axis(ops.where(ends, -float("inf"), totals), kept, axis=1)
        return Pools(
            chosen(texts, kept), alive, chosen(all_ids, best), finished,
            ops.take_along_axis(all_finished, best, axis=1),
        ), state  # fmt: skip

    def candidates(self, logits, position, pools: Pools):
        """The 2 K best texts of each row with one token more: (B, 2 K, T). And (B, 2 K) of each: whether it ends, its
        log-probability, that / penalty, and the number of the text that it extends."""
        size = logits.shape[-1]
        following = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        following = ops.reshape(following, (self.batch, self.beams, size))
        if self.given is not None:
            following = self.keep_prompts(following, position, pools)
        total = ops.reshape(ops.expand_dims(pools.alive, 2) + following, (self.batch, self.beams * size))
        scores, where = ops.top_k(total / ops.reshape(self.divisor(position + 1), (-1, 1)), 2 * self.beams)
        parents, tokens = where // size, ops.cast(where % size, "int32")
        place = ops.equal(ops.arange(self.max_length + 1), position + 1)
        texts = ops.where(place, ops.expand_dims(tokens, 2), chosen(pools.alive_ids, parents))
        ends = ops.equal(tokens, self.end_id)
        if self.given is not None:
            ends = ops.logical_and(ends, ops.expand_dims(position >= self.given, 1))
        return texts, ends, ops.take_along_axis(total, where, axis=1), scores, parents

    def keep_prompts(self, following, position, pools: Pools):
        """Log-probabilities (B, K, V) of which a row that is still in its prompt has only the next token there, for certain."""
        is_given = position < self.given  # (B,)

        def kept():
            token = ops.take(pools.alive_ids, ops.minimum(position + 1, self.max_length), axis=2)  # (B, K)
            certain = ops.equal(ops.arange(following.shape[2]), ops.expand_dims(token, 2))
            return ops.where(ops.reshape(is_given, (-1, 1, 1)), ops.where(certain, 0.0, -float("inf")), following)

        return ops.cond(ops.any(is_given), kept, lambda: following)

    def within_limits(self, position, new, old):
        """`new` in rows that may still grow, elsewhere `old`."""
        return ops.where(ops.reshape(position < self.limits, (-1, *(1 for _ in new.shape[1:]))), new, old)

    def best(self, position, pools: Pools):
        """The finished texts of each row with their scores; of a row without any, the alive ones."""
        some = ops.any(pools.is_finished, axis=1, keepdims=True)  # (B, 1)
        ids = ops.where(ops.expand_dims(some, 2), pools.finished_ids, pools.alive_ids)
        divisor = self.divisor(ops.minimum(position, self.limits))
        return ids, ops.where(some, pools.finished, pools.alive / ops.reshape(divisor, (-1, 1)))
