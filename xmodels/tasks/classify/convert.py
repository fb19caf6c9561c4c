"""The head of a classifier in other formats."""

from xmodels.tasks.base.published_head import SEQUENCE, SINGLE_LABEL, PublishedHead
from xmodels.tasks.classify.task import Classify

HEAD = PublishedHead(
    kind=SEQUENCE,
    problem=SINGLE_LABEL,
    make=lambda config, num_classes, reading: Classify(config, range(num_classes), reading),
)
