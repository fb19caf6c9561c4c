"""What counting can name: the commonest token, and the commonest one between two neighbours, or behind two tokens.

A network that is not better than the first has learnt nothing; one that is not better than the second has no use for more
than its neighbours. Both lines need no training, so they tell from the first step on what a run is worth.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

BOTH, BEFORE = "both", "before"
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


def asked(batch: Mapping[str, np.ndarray], context: str) -> Cases:
    """The tokens that a batch asks for, with what stands beside them: true neighbours, also where they are hidden as well.

    Whole words and spans hide most neighbours of their tokens, so what can be counted beside those that are left would be a
    lower line, and another one for each masking.
    """
    weighted = batch["label_weights"] > 0
    if context == BEFORE:
        read = batch["target_ids"] if "target_ids" in batch else batch["token_ids"]
        earlier = np.pad(read[:, :-1], [(0, 0), (1, 0)])
        return Cases(*(values[weighted].astype(np.int64) for values in (earlier, read, batch["labels"])))
    ids = np.pad(_clean(batch), [(0, 0), (1, 1)])
    beside = (np.take_along_axis(ids, batch["mask_positions"] + shift, axis=1) for shift in (0, 2))
    return Cases(*(values[weighted].astype(np.int64) for values in (*beside, batch["labels"])))


def told(batch: Mapping[str, np.ndarray], context: str) -> Cases:
    """All tokens of a batch from which counts are learnt; hidden ones are put back."""
    if context == BEFORE:
        return asked(batch, context)
    ids = np.where(batch["padding_mask"], _clean(batch), 0)
    real = batch["padding_mask"][:, 1:-1]
    parts = ids[:, :-2], ids[:, 2:], ids[:, 1:-1]
    return Cases(*(values[real].astype(np.int64) for values in parts))


def _clean(batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """The tokens (B, L) before any was hidden."""
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
        self.levels = [(keys, _commonest(keys(cases), cases.token)) for keys in (self._pair, *singles)]

    def _pair(self, cases: Cases) -> np.ndarray:
        return cases.first * self.width + cases.second

    def answers(self, cases: Cases) -> np.ndarray:
        """The token for each context, int64 (N,)."""
        # Where both neighbours are known together, they decide; of single ones, the one that is surer of its token.
        answers, sureness = np.full(len(cases.token), self.commonest), np.full(len(cases.token), -1.0)
        known = np.maximum(cases.first, cases.second) < self.width
        for number, (keys, (contexts, tokens, shares)) in enumerate(self.levels):
            wanted = keys(cases)
            places = np.minimum(np.searchsorted(contexts, wanted), len(contexts) - 1)
            found = (contexts[places] == wanted) & (shares[places] > sureness) & (known | (number > 0))
            answers[found] = tokens[places][found]
            sureness[found] = np.inf if number == 0 else shares[places][found]
        return answers


def _commonest(contexts: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each context once, ascending; its commonest token, of equally common ones the first; and the share of that."""
    order = np.lexsort((tokens, contexts))
    contexts, tokens = contexts[order], tokens[order]
    starts = np.flatnonzero(np.r_[True, (contexts[1:] != contexts[:-1]) | (tokens[1:] != tokens[:-1])])
    counts = np.diff(np.r_[starts, len(tokens)])
    contexts, tokens = contexts[starts], tokens[starts]
    order = np.lexsort((-counts, contexts))
    once, first, sizes = np.unique(contexts[order], return_index=True, return_counts=True)
    totals = np.add.reduceat(counts[order], first) if len(sizes) else counts
    return once, tokens[order][first], counts[order][first] / totals


def shares_right(
    training: Iterable[Mapping[str, np.ndarray]], scored: Iterable[Mapping[str, np.ndarray]], context: str
) -> tuple[float, float]:
    """How often the commonest token, and the commonest one beside the neighbours, is the one that is asked for.

    Args:
        training: batches that are counted, until they hold `MOST_TOKENS` tokens.
        scored: batches with the questions. The commonest token is that among their own answers.
        context: "both" or "before".
    """
    questions = Cases.join(asked(batch, context) for batch in scored)
    if not len(questions.token):
        return 0.0, 0.0
    unigram = np.bincount(questions.token).max() / len(questions.token)
    counted = Cases.join(_until_enough(told(batch, context) for batch in training))
    right = Counts(counted, context).answers(questions) == questions.token if len(counted.token) else np.zeros(1)
    return float(unigram), float(right.mean())


def _until_enough(parts: Iterable[Cases]) -> Iterable[Cases]:
    total = 0
    for part in parts:
        yield part
        total += len(part.token)
        if total >= MOST_TOKENS:
            return
