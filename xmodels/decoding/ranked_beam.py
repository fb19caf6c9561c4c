"""Beam search as in Hugging Face, for BART and other networks from fairseq.

Each step takes the 2 K best candidates of a row by log-probability. A candidate that ends counts only if it is among the K
best; its score is its log-probability / length ** power. It differs from `decoding.beam` in this and in when it stops.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from xmodels.decoding.beam import mean_penalty
from xmodels.decoding.memory import Copies, Shared, gather_texts
from xmodels.decoding.selection import highest

EMPTY = -1e9  # the score of an empty slot, also added to the scores of candidates that do not count


class Pools(NamedTuple):
    """Texts (B, K, T), best first, with their scores (B, K)."""

    alive_ids: Any
    alive: Any  # log-probabilities
    finished_ids: Any
    finished: Any  # log-probabilities / length ** power
    is_finished: Any  # bool (B, K), False for empty slots
    may_improve: Any  # bool (B,), False if no alive text can become one of the K best
    continues: Any  # bool (B,), False if all candidates ended


def ranked_beam_search(
    step: Callable, state, start_ids, num_beams: int, max_length: int, end_id: int, length_penalty: float = 1.0,
    early_stopping: bool | str = False, limits=None, filters: Sequence[Callable] = (), memory: Copies | Shared | None = None,
):  # fmt: skip
    """Searches for the most probable continuations.

    Args:
        step, state, start_ids, num_beams, max_length, end_id, limits, memory: as in `decoding.beam.beam_search`.
        length_penalty: the power of the length, which counts the end token but not the first token.
        early_stopping: when the search of a row stops. True: when it has K finished texts. False: when it has, and no alive text
            would be among the K best if it ended now. "never": when it has, and no alive text could be even at the maximal
            length, since log-probabilities only fall.
        filters: from `decoding.filters`, applied to log-probabilities, which are not normalised again.

    Returns:
        int (B, K, max_length + 1) texts with their first token, best first, padded with 0, and float32 (B, K) scores.
    """
    batch = start_ids.shape[0] if start_ids.shape[0] is not None else ops.shape(start_ids)[0]
    limits = ops.full((batch,), max_length, dtype="int32") if limits is None else ops.cast(limits, "int32")
    memory = memory or Copies(num_beams, max_length)
    looks_ahead = early_stopping == "never" and length_penalty > 0
    search = RankedSearch(
        batch, num_beams, max_length, end_id, mean_penalty(length_penalty), early_stopping is True, looks_ahead, limits, filters,
        memory,
    )  # fmt: skip

    def extend(position, *pools_and_state):
        pools, state = Pools(*pools_and_state[:-1]), pools_and_state[-1]
        pools, state = search.add_token(step, position, pools, state)
        return position + 1, *pools, state

    variables = (ops.convert_to_tensor(0, "int32"), *search.initial_pools(start_ids), memory.begin(state, batch))
    _, *pools, _ = ops.while_loop(
        lambda position, *others: search.is_unfinished(Pools(*others[:-1])), extend, variables,
        maximum_iterations=max_length,
    )  # fmt: skip
    pools = Pools(*pools)
    return pools.finished_ids, pools.finished


@dataclasses.dataclass(frozen=True)
class RankedSearch:
    """The settings of a search of B rows and K beams; see `ranked_beam_search`."""

    batch: Any
    beams: int
    max_length: int
    end_id: int
    penalty: Callable
    stops_full: bool
    looks_ahead: bool
    limits: Any
    filters: Sequence[Callable]
    memory: Copies | Shared

    def initial_pools(self, start_ids) -> Pools:
        start = ops.reshape(ops.cast(start_ids, "int32"), (-1, 1, 1))
        first = ops.equal(ops.arange(self.max_length + 1), 0)
        ids = ops.where(first, ops.repeat(start, self.beams, axis=1), 0)  # (B, K, T)
        shape = (self.batch, self.beams)
        # The K beams start equal, so only the first one counts.
        alive = ops.broadcast_to(ops.where(ops.equal(ops.arange(self.beams), 0), 0.0, EMPTY), shape)
        empty, nothing = ops.full(shape, EMPTY, dtype="float32"), ops.zeros(shape, dtype="bool")
        everywhere = ops.ones((self.batch,), dtype="bool")
        return Pools(ids, alive, ops.zeros_like(ids), empty, nothing, everywhere, everywhere)

    def is_full(self, pools: Pools):
        """Returns whether a row has K finished texts, if that ends its search; otherwise False: bool (B,)."""
        full = ops.all(pools.is_finished, axis=1)
        return full if self.stops_full else ops.zeros_like(full)

    def is_unfinished(self, pools: Pools):
        rows = ops.logical_and(
            pools.continues, ops.logical_and(pools.may_improve, ops.logical_not(self.is_full(pools)))
        )
        return ops.any(rows)

    def add_token(self, step: Callable, position, pools: Pools, state):
        """Returns the pools after one more token, and the state of the alive texts."""
        logits, state = step(ops.reshape(pools.alive_ids, (-1, self.max_length + 1)), position, state)
        totals, texts, ends, parents = self.candidates(logits, position, pools)
        length = position + 1
        alive, kept = ops.top_k(ops.where(ends, totals + EMPTY, totals), self.beams)
        state = self.memory.follow(state, ops.take_along_axis(parents, kept, axis=1))
        finished_ids, finished, is_finished = self.add_ended(totals, texts, ends, length, pools)
        best = ops.min(finished, axis=1)  # the score that an alive text must beat
        reached = alive[:, 0] / self.penalty(self.limits if self.looks_ahead else length)
        hopeful = reached > ops.where(ops.all(is_finished, axis=1), best, EMPTY)
        may_improve = ops.logical_and(pools.may_improve, hopeful)
        continues = ops.logical_not(ops.all(ends, axis=1))
        alive_ids = gather_texts(texts, kept)
        return Pools(alive_ids, alive, finished_ids, finished, is_finished, may_improve, continues), state

    def candidates(self, logits, position, pools: Pools):
        """Returns the 2 K best candidates of each row: log-probabilities (B, 2 K), texts (B, 2 K, T), whether they end (B, 2 K), and
        the indices of the alive texts that they extend (B, 2 K)."""
        size, flat = logits.shape[-1], ops.reshape(pools.alive_ids, (-1, self.max_length + 1))
        following = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)  # (B K, V)
        for change in self.filters:
            following = change(following, flat, position + 1)
        following = ops.reshape(following, (self.batch, self.beams, size))
        total = ops.reshape(ops.expand_dims(pools.alive, 2) + following, (self.batch, self.beams * size))
        totals, where = highest(total, 2 * self.beams)
        parents, tokens = where // size, where % size
        place = ops.equal(ops.arange(self.max_length + 1), position + 1)
        texts = ops.where(place, ops.expand_dims(tokens, 2), gather_texts(pools.alive_ids, parents))
        last = ops.expand_dims(position + 1 >= self.limits, 1)  # (B, 1)
        return totals, texts, ops.logical_or(ops.equal(tokens, self.end_id), last), parents

    def add_ended(self, totals, texts, ends, length, pools: Pools):
        """Returns the finished texts including the candidates that end now, their scores, and which slots are not empty."""
        ranked = ops.arange(2 * self.beams) < self.beams
        counts = ops.logical_and(ends, ranked)
        closed = ops.logical_or(self.is_full(pools), ops.logical_not(pools.may_improve))
        closed = ops.logical_or(closed, ops.logical_not(pools.continues))  # (B,)
        # The score of candidates that do not count is so low that they fill only empty slots, and none in closed rows.
        scores = totals / self.penalty(length) + ops.where(counts, 0.0, EMPTY)
        scores = scores + ops.where(ops.expand_dims(closed, 1), EMPTY, 0.0)
        all_ids = ops.concatenate([pools.finished_ids, texts], axis=1)  # (B, 3 K, T)
        finished, best = ops.top_k(ops.concatenate([pools.finished, scores], axis=1), self.beams)
        marks = ops.logical_and(counts, ops.logical_not(ops.expand_dims(closed, 1)))
        taken = ops.take_along_axis(ops.concatenate([pools.is_finished, marks], axis=1), best, axis=1)
        return gather_texts(all_ids, best), finished, taken
