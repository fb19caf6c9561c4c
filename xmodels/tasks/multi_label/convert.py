"""The head of a classifier with several labels in other formats."""

from xmodels.tasks.base.published_head import MULTI_LABEL, SEQUENCE, PublishedHead
from xmodels.tasks.multi_label.task import MultiLabel

HEAD = PublishedHead(
    kind=SEQUENCE,
    problem=MULTI_LABEL,
    make=lambda config, num_classes, reading: MultiLabel(config, range(num_classes), reading),
)
