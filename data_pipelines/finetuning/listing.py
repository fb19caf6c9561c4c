"""The values of `create_finetuning_data --task`, and the files of this folder that hold them. Imports nothing heavy."""

import importlib

TASKS = {
    "classify": "texts",
    "multi_label": "texts",
    "regress": "texts",
    "tag": "tag",
    "answer_span": "answer_span",
    "choose": "choices",
    "rank": "lists",
    "answer_story": "story",
    "siamese": "siamese",
    "translate": "translate",
}


def task_class(name: str) -> type:
    """The `finetuning.task.Task` of a name of TASKS."""
    module = importlib.import_module(f"data_pipelines.finetuning.{TASKS[name]}")
    return next(kind for kind in vars(module).values() if isinstance(kind, type) and getattr(kind, "name", "") == name)
