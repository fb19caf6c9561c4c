"""Describes a finder of answers by beam search without a task.json."""

from xmodels.tasks.answer_span.head import of_windows
from xmodels.tasks.base.description import Head, TaskDescription


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    return of_windows("answer_beam", head)
