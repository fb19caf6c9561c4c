"""The head of a classifier with several labels in other formats, which decide on each label for itself."""

from data_pipelines.errors import CheckpointError
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.published_head import MULTI_LABEL, SEQUENCE, PublishedHead
from xmodels.tasks.multi_label.task import SOFTMAX, MultiLabel


def own_flags(loaded: Checkpoint) -> list[str]:
    """Returns the flag of `finetune --task=multi_label` that gave the labels one softmax."""
    return ["--label_softmax"] if loaded.settings.get(SOFTMAX) else []


def refuse(loaded: Checkpoint, flags: list[str], target: str) -> None:
    """Raises a CheckpointError that names the flag that made the classifier."""
    raise CheckpointError(
        f"{target}: a classifier with several labels has a sigmoid for each label in this format; it has no place for "
        f"{', '.join(flags)}, with which this one has learnt. Fine-tune one without, or serve this one with `xmodels export_model`."
    )


HEAD = PublishedHead(
    kind=SEQUENCE,
    problem=MULTI_LABEL,
    make=lambda config, num_classes, reading: MultiLabel(config, range(num_classes), reading),
    own_flags=own_flags,
    refuse=refuse,
)
