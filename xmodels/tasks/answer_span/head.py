"""Describes a finder of answers without a task.json: its windows are those of Google's code."""

from xmodels.tasks.base.description import Head, TaskDescription

LONGEST = 384  # tokens of a window


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    return of_windows("answer_span", head)


def of_windows(task: str, head: Head) -> TaskDescription:
    """Returns the description of a task that reads windows."""
    settings = {"context_first": head.reading is not None and head.reading.frame.context_first}
    return TaskDescription(task, head.labels, 2, min(head.longest, LONGEST), settings=settings)
