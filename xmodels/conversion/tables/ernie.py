"""ERNIE by the names that others use: Hugging Face's `ErnieForPreTraining` and Baidu's PaddlePaddle code.

Axes as in `tables/bert.py`; T tasks, R roles of dialogues.
"""

from xmodels.conversion.formats import HuggingFace, Table
from xmodels.conversion.tables import bert
from xmodels.models.ernie import ErnieConfig

AXES = bert.AXES | {
    "backbone.embedding.task.embeddings": "T D",
    "backbone.embedding.role.embeddings": "R D",
}

HUGGING_FACE_TASKS = 3  # `task_type_vocab_size` where the table is not used


def tasks_from(stored) -> dict[str, int | None]:
    """The table of tasks is there where `use_task_id` says so."""
    tasks = stored.get("task_type_vocab_size", HUGGING_FACE_TASKS)
    return {"num_tasks": tasks if stored.get("use_task_id") else None}


def tasks_to(config: ErnieConfig) -> dict[str, int | bool]:
    return {"use_task_id": bool(config.num_tasks), "task_type_vocab_size": config.num_tasks or HUGGING_FACE_TASKS}


def lacks(config: ErnieConfig) -> tuple[str, ...]:
    tables = {"backbone.embedding.task.": config.num_tasks, "backbone.embedding.role.": config.num_roles}
    return tuple(prefix for prefix, rows in tables.items() if not rows)


HUGGING_FACE = HuggingFace(
    variables={
        ours: (theirs.replace("bert.", "ernie.", 1), axes)
        for ours, (theirs, axes) in bert.HUGGING_FACE.variables.items()
    }
    | {"backbone.embedding.task.embeddings": ("ernie.embeddings.task_type_embeddings.weight", "T D")},
    settings=bert.HUGGING_FACE.settings,
    activations=bert.HUGGING_FACE.activations,
    fixed=bert.HUGGING_FACE.fixed | {"model_type": "ernie"},
    implied=tasks_from,
    derived=tasks_to,
    left_out=frozenset({"num_roles"}),
    architectures=tuple((name.replace("Bert", "Ernie"), heads) for name, heads in bert.HUGGING_FACE.architectures),
    prefix="ernie.",
    bare_parts=bert.HUGGING_FACE.bare_parts,
    old_endings=bert.HUGGING_FACE.old_endings,
    buffers=(r"ernie\.embeddings\.position_ids",),
    tied={
        "cls.predictions.decoder.weight": "ernie.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)

TABLE = Table(
    config=ErnieConfig,
    axes=AXES,
    lengths=lambda config: bert.axis_lengths(config) | {"T": config.num_tasks or 0, "R": config.num_roles or 0},
    counts=lambda config: {"block": config.num_layers},
    heads=bert.HEADS,
    optional={"pooler": "backbone.pooler."},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
)
