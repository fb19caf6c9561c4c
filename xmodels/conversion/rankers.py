"""Rankers in formats of others, which have classifiers with one output and do not say what their number is for."""

import dataclasses

from data_pipelines.errors import UsageError
from xmodels.conversion import formats
from xmodels.models.checkpoint import Checkpoint

RANK, REGRESS = "rank", "regress"


def as_regression(loaded: Checkpoint) -> Checkpoint:
    """Returns a checkpoint whose ranker is called a regression, which it is but for its loss; others as they stand."""
    known = {head.label for head in formats.table_of(loaded.model).heads} if formats.has_table(loaded.model) else ()
    return _renamed(loaded, RANK, REGRESS) if RANK in loaded.heads and REGRESS in known else loaded


def as_ranker(loaded: Checkpoint, source: str) -> Checkpoint:
    """Returns a checkpoint whose head with one output is that of a ranker. Raises a UsageError where it has none."""
    if RANK in loaded.heads:
        return loaded
    if REGRESS not in loaded.heads:
        raise UsageError(
            f"--task={RANK}: {source} has no head with one output, which gives a pair of texts a score. Its heads: "
            f"{', '.join(sorted(loaded.heads)) or 'none'}."
        )
    return _renamed(loaded, REGRESS, RANK)


def lost_scale(loaded: Checkpoint) -> float | None:
    """Returns the --rank_scale of a ranker, which no other format has a place for; None where there is none."""
    return loaded.settings.get("scale") if RANK in loaded.heads else None


def _renamed(loaded: Checkpoint, old: str, new: str) -> Checkpoint:
    before, after = f"objective.{old}.", f"objective.{new}."
    values = {
        after + name.removeprefix(before) if name.startswith(before) else name: value
        for name, value in loaded.values.items()
    }
    return dataclasses.replace(loaded, values=values, heads=(loaded.heads - {old}) | {new})
