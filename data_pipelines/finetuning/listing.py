"""The values of `create_finetuning_data --task`: the files of this folder that hold them, and what they mean. No heavy imports."""

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

MEANINGS = {
    "classify": "A label for a text or a pair.",
    "multi_label": "Any number of labels for a text or a pair.",
    "regress": "A number for a text or a pair.",
    "tag": "A tag for every word.",
    "answer_span": "Questions answered by a span of a text.",
    "choose": "One of several choices.",
    "rank": "Candidates of a query by their relevance.",
    "answer_story": "Questions about stories.",
    "siamese": "Pairs of texts that match, or triplets.",
    "translate": "A text and its translation, summary or answer.",
}


def task_class(name: str) -> type:
    """The `finetuning.task.Task` of a name of TASKS."""
    module = importlib.import_module(f"data_pipelines.finetuning.{TASKS[name]}")
    return next(kind for kind in vars(module).values() if isinstance(kind, type) and getattr(kind, "name", "") == name)
