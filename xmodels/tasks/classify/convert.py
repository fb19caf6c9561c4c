"""The head of a classifier in other formats, which have a softmax over all labels only."""

from data_pipelines.errors import CheckpointError
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.published_head import SEQUENCE, SINGLE_LABEL, PublishedHead
from xmodels.tasks.classify.task import Classify


def own_flags(loaded: Checkpoint) -> list[str]:
    """Returns the flag of `finetune --task=classify` that gave a classifier a tree in place of a softmax."""
    return ["--hierarchical_softmax"] if loaded.settings.get("label_counts") else []


def refuse(loaded: Checkpoint, flags: list[str], target: str) -> None:
    """Raises a CheckpointError that names the flag that made the classifier."""
    raise CheckpointError(
        f"{target}: a classifier has a softmax over all labels in this format; it has no place for {', '.join(flags)}, with which "
        "this one has learnt. Fine-tune one without, or serve this one with `xmodels export_model`."
    )


HEAD = PublishedHead(
    kind=SEQUENCE,
    problem=SINGLE_LABEL,
    make=lambda config, num_classes, reading: Classify(config, range(num_classes), reading),
    own_flags=own_flags,
    refuse=refuse,
)
