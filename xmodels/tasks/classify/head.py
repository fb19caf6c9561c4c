"""Describes a classifier without a task.json: an input has one text or two."""

from xmodels.models import folder
from xmodels.tasks.base.description import Head, TaskDescription


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    counts = folder.read_label_counts(head.path)
    settings = {"label_counts": counts} if counts else {}
    return TaskDescription("classify", head.labels, 0, head.longest, settings=settings)
