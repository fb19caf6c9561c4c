"""Describes a tagger without a task.json, whose inputs are single texts."""

from xmodels.tasks.base.description import Head, TaskDescription


def describe(head: Head) -> TaskDescription | None:
    """Returns what task.json would say, or says where the folder is part of a run; None if the head has parts that only a task.json
    describes.
    """
    if head.run is not None:
        return head.run
    is_plain = {name.split(".")[0] for name in head.weights} == {"head"}
    if not is_plain or len(head.weights["head.kernel"]) != head.config.hidden_dim:
        return None
    return TaskDescription("tag", head.labels, 1, head.longest)
