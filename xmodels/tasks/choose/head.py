"""Describes a chooser without a task.json: a choice is read in up to two parts."""

from xmodels.tasks.base.description import Head, TaskDescription


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    return TaskDescription("choose", head.labels, 0, head.longest)
