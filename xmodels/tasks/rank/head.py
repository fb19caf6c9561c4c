"""Describes a ranker without a task.json: an input is a query and a candidate."""

from xmodels.tasks.base.description import Head, TaskDescription


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    return TaskDescription("rank", [], 2, head.longest)
