"""What a learner learns from: objectives, each with batches of its own, and which of them a step takes."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from xmodels.objectives.base import Objective

OTHER_ORDER = 1_000_003  # between the seeds of two streams
ONLY = "training"  # the name of a stream that is alone; it stands in no log and in no state


@dataclasses.dataclass(frozen=True)
class Stream:
    """An objective and its batches.

    Attributes:
        objective: what is learnt from these batches.
        batches: what it is learnt from.
        share: how many of the steps are of this stream, relative to the shares of the others: a number, or a function of
            the step, such as `lambda step: max(0.1, 1 - step / 10_000)`.
        head: names the weights of the objective in a checkpoint, where several are of one kind; None for the label of its kind.
    """

    objective: Objective
    batches: Batches
    share: float | Callable[[int], float] = 1.0
    head: str | None = None

    def share_at(self, step: int) -> float:
        return float(self.share(step) if callable(self.share) else self.share)


def single(objective: Objective, batches: Batches) -> dict[str, Stream]:
    """The streams of a learner with one objective, the usual case."""
    return {ONLY: Stream(objective, batches)}


def seed_of(seed: int, index: int) -> int:
    """The seed with which a stream reads records that others read too, so that each has an order and draws of its own."""
    return seed + OTHER_ORDER * index


def first_credits(seed: int, count: int) -> np.ndarray:
    """What streams are owed before the first step; draws which of equal streams comes first. float64 (N,)"""
    return np.random.default_rng(seed).uniform(0.0, 1e-3, count)


def choose(streams: Mapping[str, Stream], step: int, credits: np.ndarray) -> tuple[str, np.ndarray]:
    """The stream of a step, and what the streams are owed behind it.

    Every step each stream is owed its share of a step more; the stream that is owed most is taken, and pays a whole one.
    So after any number of steps the counts are within one or two of the sums of the shares, and not by chance.

    Args:
        step: the number of updates done.
        credits: what the streams are owed before it, float64 (N,); of `first_credits`, or of the step before.

    Raises:
        UsageError: a share is negative or not finite, or all of them are 0.
    """
    shares = np.array([stream.share_at(step) for stream in streams.values()], np.float64)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        listed = ", ".join(f"{name} {share:g}" for name, share in zip(streams, shares, strict=True))
        raise UsageError(f"Shares of streams at step {step}: {listed}; expected numbers of 0 or more, and one above 0.")
    credits = credits + shares / shares.sum()
    place = int(np.argmax(np.where(shares > 0, credits, -np.inf)))
    return list(streams)[place], credits - (np.arange(len(shares)) == place)


def runs(streams: Mapping[str, Stream], step: int, num_steps: int, credits: np.ndarray) -> list[tuple[str, int]]:
    """The streams of the next steps as (name, how many steps of it follow one another); arguments as of `choose`."""
    names = []
    for each in range(step, step + num_steps):
        name, credits = choose(streams, each, credits)
        names.append(name)
    return [(name, len(list(group))) for name, group in itertools.groupby(names)]


class Several(Objective):
    """The objectives of several streams as one, for what concerns their weights: names in a checkpoint and counts.

    Each has a forward pass of its own; objectives that share one are joined by `together`.

    Args:
        objectives: each of them, or its parts, is an attribute by its label.
        heads: the names of those that have one in a checkpoint, in the same order; None for the label.
    """

    def __init__(self, objectives: list[Objective], heads: Sequence[str | None] = (), **kwargs):
        super().__init__(**kwargs)
        named = itertools.zip_longest(objectives, heads)
        parts = {id(part): (head or part.label, part) for each, head in named for part in each.parts}
        labels, self._parts = zip(*parts.values(), strict=True)
        if len(set(labels)) < len(labels):
            raise UsageError(
                f"Streams with the objectives {', '.join(labels)}: two of one kind need one object between them, so that their "
                "weights have one name in a checkpoint."
            )
        for label, part in zip(labels, self._parts, strict=True):
            setattr(self, label, part)

    @property
    def prefix(self):
        return "objective"

    @property
    def parts(self):
        return list(self._parts)


def objective_of(streams: Mapping[str, Stream]) -> Objective:
    """The only objective of streams, or all of them as one."""
    found = {id(stream.objective): (stream.objective, stream.head) for stream in streams.values()}
    objectives, heads = zip(*found.values(), strict=True)
    return objectives[0] if len(objectives) == 1 else Several(list(objectives), heads)
