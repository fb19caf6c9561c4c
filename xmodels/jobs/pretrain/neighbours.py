"""What counting can name: the commonest token, and the commonest one between two neighbours, or behind two tokens.

A network that is not better than the first has learnt nothing; one that is not better than the second has no use for more
than its neighbours. Both lines need no training, so they tell from the first step on what a run is worth.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

BOTH, BEFORE = "both", "before"
HIDDEN = 1 << 31  # a neighbour that nothing is known of; no vocabulary is as large
MOST_TOKENS = 4_000_000  # of the training records that are counted; on a core some seconds


@dataclasses.dataclass(frozen=True)
class Cases:
    """Tokens and two neighbours of each, int64 (N,).

    With the context `both`, `first` stands before the token and `second` behind it; with `before`, `second` stands before it
    and `first` before that.
    """

    first: np.ndarray
    second: np.ndarray
    token: np.ndarray

    @classmethod
    def join(cls, parts: Iterable["Cases"]) -> "Cases":
        parts = list(parts)
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def without(self, tokens: np.ndarray) -> "Cases":
        """Returns the cases of all other tokens."""
        kept = ~np.isin(self.token, tokens)
        return Cases(self.first[kept], self.second[kept], self.token[kept])


def find_targets(batch: Mapping[str, np.ndarray], context: str, visible: bool = False) -> Cases:
    """Returns the tokens that a batch asks for, with what stands beside them: true neighbours, also where they are hidden as
    well.

    Args:
        visible: of the context `both`, whether a neighbour that the network does not see is `HIDDEN`: whole words and spans hide
            most neighbours of their tokens, and a batch with `target_visibility` says what each target may attend to.
    """
    weighted = batch["label_weights"] > 0
    if context == BEFORE:
        read = batch["target_ids"] if "target_ids" in batch else batch["token_ids"]
        earlier = np.pad(read[:, :-1], [(0, 0), (1, 0)])
        return Cases(*(values[weighted].astype(np.int64) for values in (earlier, read, batch["labels"])))
    ids, places = np.pad(_clean(batch).astype(np.int64), [(0, 0), (1, 1)]), batch["mask_positions"]
    beside = [np.take_along_axis(ids, places + shift, axis=1) for shift in (0, 2)]
    if visible:
        seen = np.pad(_visible_tokens(batch), [(0, 0), (0, 0), (1, 1)], constant_values=True)
        for shift, values in zip((0, 2), beside, strict=True):
            values[~np.take_along_axis(seen, places[:, :, None] + shift, axis=2)[:, :, 0]] = HIDDEN
    return Cases(*(values[weighted].astype(np.int64) for values in (*beside, batch["labels"])))


def _visible_tokens(batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns which tokens the network sees where it names each target, bool (B, P, L), or (B, 1, L) if those are the same for
    all."""
    clean = _clean(batch)
    if "target_visibility" in batch:  # a network may also read a target before it names the next one
        return batch["target_visibility"] & (batch["token_ids"] == clean)[:, None]
    seen, (rows, slots) = np.ones(clean.shape, bool), np.nonzero(batch["label_weights"] > 0)
    seen[rows, batch["mask_positions"][rows, slots]] = False
    return seen[:, None]


def find_all_tokens(batch: Mapping[str, np.ndarray], context: str) -> Cases:
    """Returns all tokens of a batch from which counts are learnt; hidden ones are put back."""
    if context == BEFORE:
        return find_targets(batch, context)
    ids = np.where(batch["padding_mask"], _clean(batch), 0)
    real = batch["padding_mask"][:, 1:-1]
    parts = ids[:, :-2], ids[:, 2:], ids[:, 1:-1]
    return Cases(*(values[real].astype(np.int64) for values in parts))


def _clean(batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the tokens (B, L) before any was hidden."""
    ids, (rows, slots) = batch["token_ids"].copy(), np.nonzero(batch["label_weights"] > 0)
    ids[rows, batch["mask_positions"][rows, slots]] = batch["labels"][rows, slots]
    return ids


class Counts:
    """The commonest token in each context: of two neighbours, else of one of them, else of all.

    Args:
        cases: what is counted.
        context: which neighbours a token is named from; of single ones, `before` takes the nearer.
    """

    def __init__(self, cases: Cases, context: str):
        self.width = 1 + max((int(part.max()) for part in dataclasses.astuple(cases) if len(part)), default=0)
        self.commonest = int(np.bincount(cases.token).argmax())
        singles = (lambda c: c.first, lambda c: c.second) if context == BOTH else (lambda c: c.second,)
        self.levels = [(keys, _Level.of(keys(cases), cases.token)) for keys in (self._pair, *singles)]

    def _pair(self, cases: Cases) -> np.ndarray:
        return cases.first * self.width + cases.second

    def answers(self, cases: Cases, leave_out: bool = False) -> np.ndarray:
        """Returns the token for each context, int64 (N,).

        Args:
            leave_out: whether the cases are among those that were counted: then each is answered from all the others.
        """
        # Where both neighbours are known together, they decide; of single ones, the one that is surer of its token.
        answers, sureness = np.full(len(cases.token), self.commonest), np.full(len(cases.token), -1.0)
        known = np.maximum(cases.first, cases.second) < self.width
        for number, (keys, level) in enumerate(self.levels):
            tokens, shares = level.look_up(keys(cases), cases.token if leave_out else None)
            found = (shares > sureness) & (known | (number > 0))
            answers[found] = tokens[found]
            sureness[found] = np.inf if number == 0 else shares[found]
        return answers


@dataclasses.dataclass(frozen=True)
class _Level:
    """Each context once, ascending; how often it was counted; and its two commonest tokens, of equally common ones the smaller
    first, with how often each was counted: all (N,)."""

    contexts: np.ndarray
    totals: np.ndarray
    tokens: tuple[np.ndarray, np.ndarray]
    counts: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, contexts: np.ndarray, tokens: np.ndarray) -> "_Level":
        order = np.lexsort((tokens, contexts))
        contexts, tokens = contexts[order], tokens[order]
        starts = np.flatnonzero(np.r_[True, (contexts[1:] != contexts[:-1]) | (tokens[1:] != tokens[:-1])])
        counts = np.diff(np.r_[starts, len(tokens)])
        contexts, tokens = contexts[starts], tokens[starts]
        order = np.lexsort((-counts, contexts))
        tokens, counts = tokens[order], counts[order]
        once, first, sizes = np.unique(contexts[order], return_index=True, return_counts=True)
        second, several = np.minimum(first + 1, len(tokens) - 1), sizes > 1
        runners_up = np.where(several, tokens[second], -1), np.where(several, counts[second], 0)
        totals = np.add.reduceat(counts, first)
        return cls(once, totals, (tokens[first], runners_up[0]), (counts[first], runners_up[1]))

    def look_up(self, wanted: np.ndarray, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the commonest token of each context, and its share; the share is -1 where the context was not counted.

        Args:
            own: the token of each, whose one occurrence does not count; None where all do.
        """
        places = np.minimum(np.searchsorted(self.contexts, wanted), len(self.contexts) - 1)
        (best, other), (count, behind) = ([each[places] for each in pair] for pair in (self.tokens, self.counts))
        total = np.where(self.contexts[places] == wanted, self.totals[places], 0)
        if own is not None:
            total, count = total - 1, count - (best == own)
            turned = (behind > count) | ((behind == count) & (other < best) & (other >= 0))
            best, count = np.where(turned, other, best), np.where(turned, behind, count)
        return best, np.where(total > 0, count / np.maximum(total, 1), -1.0)


@dataclasses.dataclass(frozen=True)
class Shares:
    """How often counting is right: with the commonest token, that is the commonest among the answers themselves; the commonest
    beside the true neighbours; and the commonest beside those of them that are not hidden, None where none is ever hidden."""

    unigram: float = 0.0
    neighbours: float = 0.0
    visible: float | None = None


def measure_shares(
    training: Iterable[Mapping[str, np.ndarray]],
    scored: Iterable[Mapping[str, np.ndarray]],
    context: str,
    held_out: bool = True,
    special_ids: Iterable[int] = (),
) -> Shares:
    """Returns how often counting names the tokens that are asked for.

    Args:
        training: batches that are counted, until they hold `MOST_TOKENS` tokens.
        scored: batches with the questions.
        context: "both" or "before".
        held_out: whether `scored` is not among what is counted. Else `training` begins with it, and each token is named from all
            others.
        special_ids: tokens that are no answers, unless one is asked for.
    """
    scored = list(scored)
    questions = Cases.join(find_targets(batch, context) for batch in scored)
    if not len(questions.token):
        return Shares()
    found = Shares(float(np.bincount(questions.token).max() / len(questions.token)))
    never = np.setdiff1d(list(special_ids), questions.token)
    cases = (find_all_tokens(batch, context).without(never) for batch in training)
    counted = Cases.join(_until_enough(cases, 0 if held_out else len(scored)))
    if not len(counted.token):
        return found
    counts = Counts(counted, context)

    def right(cases: Cases) -> float:
        return float((counts.answers(cases, leave_out=not held_out) == cases.token).mean())

    found = dataclasses.replace(found, neighbours=right(questions))
    if context == BEFORE:
        return found
    return dataclasses.replace(
        found, visible=right(Cases.join(find_targets(batch, context, visible=True) for batch in scored))
    )


def _until_enough(parts: Iterable[Cases], fewest: int) -> Iterable[Cases]:
    """Yields the parts, until there are `fewest` of them and they hold `MOST_TOKENS` tokens."""
    total = 0
    for number, part in enumerate(parts, 1):
        yield part
        total += len(part.token)
        if total >= MOST_TOKENS and number >= fewest:
            return
