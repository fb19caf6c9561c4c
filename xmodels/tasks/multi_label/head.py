"""Describes a classifier of several labels without a task.json: each label has the usual threshold."""

from data_pipelines.text.labels import SEPARATOR
from xmodels.tasks.base.description import Head, TaskDescription
from xmodels.tasks.classify.thresholds import THRESHOLD


def describe(head: Head) -> TaskDescription:
    """Returns what task.json would say."""
    settings = {"thresholds": [THRESHOLD] * head.num_outputs, "label_separator": SEPARATOR}
    return TaskDescription("multi_label", head.labels, 0, head.longest, settings=settings)
