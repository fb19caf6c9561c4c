"""Rankers in other formats, which have heads with one output and do not say what their number is for."""

from xmodels.models.checkpoint import Checkpoint

WRITTEN_AS = "regress"  # whose head it is but for the loss
MISSING = "no head with one output, which gives a pair of texts a score"


def lost_settings(loaded: Checkpoint) -> str | None:
    """Returns what no other format has a place for; None where there is nothing."""
    scale = loaded.settings.get("scale")
    return f"--rank_scale={scale:g}, by which scores are multiplied before a softmax" if scale else None
