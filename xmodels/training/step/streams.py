"""The streams of a learner: objectives with batches of their own, and which of them a step trains."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from xmodels.objectives.base import Objective

OTHER_ORDER = 1_000_003  # the difference of the seeds of two streams
ONLY = "training"  # the name of the stream if there is only one; it appears in no log and in no state


@dataclasses.dataclass(frozen=True)
class Stream:
    """An objective and its batches.

    Attributes:
        objective: what is trained on these batches.
        batches: its data.
        share: the share of the steps that train this stream, relative to the shares of the others: a number, or a function of
            the step, such as `lambda step: max(0.1, 1 - step / 10_000)`.
        head: the name of the objective's weights in a checkpoint, if several objectives are of the same class; None for its
            label.
    """

    objective: Objective
    batches: Batches
    share: float | Callable[[int], float] = 1.0
    head: str | None = None

    def share_at(self, step: int) -> float:
        return float(self.share(step) if callable(self.share) else self.share)


def single(objective: Objective, batches: Batches) -> dict[str, Stream]:
    """Returns the streams of a learner with one objective, the usual case."""
    return {ONLY: Stream(objective, batches)}


def seed_of(seed: int, index: int) -> int:
    """Returns the seed of a stream, so that streams that share records read them in different orders with different draws."""
    return seed + OTHER_ORDER * index


def first_credits(seed: int, count: int) -> np.ndarray:
    """Returns the credits of streams before the first step, float64 (N,): small random numbers that decide between equal streams."""
    return np.random.default_rng(seed).uniform(0.0, 1e-3, count)


def choose(streams: Mapping[str, Stream], step: int, credits: np.ndarray) -> tuple[str, np.ndarray]:
    """Chooses the stream of a step.

    In every step the credit of each stream grows by its share of a step; the stream with the largest credit is chosen, and pays
    one step. So after any number of steps, the counts differ from the summed shares by at most one or two.

    Args:
        streams: {name: `Stream`}.
        step: the number of updates done.
        credits: of the streams before the step, float64 (N,), from `first_credits` or from the previous step.

    Returns:
        The name of the stream, and the credits after the step.

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
    """Returns the streams of the next steps as (name, number of consecutive steps). Arguments as in `choose`."""
    names = []
    for each in range(step, step + num_steps):
        name, credits = choose(streams, each, credits)
        names.append(name)
    return [(name, len(list(group))) for name, group in itertools.groupby(names)]


class Several(Objective):
    """The objectives of several streams as one layer, which holds their weights and names them in a checkpoint.

    Each has a forward pass of its own; objectives that share one are combined with `together`.

    Args:
        objectives: the objectives; their parts become attributes, named by their labels.
        heads: names to use in a checkpoint instead of the labels, in the same order; None for the label.

    Raises:
        UsageError: two objectives have the same name.
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
    """Returns the objective of streams: the only one, or all of them as `Several`."""
    found = {id(stream.objective): (stream.objective, stream.head) for stream in streams.values()}
    objectives, heads = zip(*found.values(), strict=True)
    return objectives[0] if len(objectives) == 1 else Several(list(objectives), heads)
