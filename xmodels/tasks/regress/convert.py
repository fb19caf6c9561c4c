"""The head of a regression in other formats."""

from xmodels.tasks.base.published_head import REGRESSION, SEQUENCE, PublishedHead
from xmodels.tasks.regress.task import Regress

HEAD = PublishedHead(
    kind=SEQUENCE,
    problem=REGRESSION,
    has_one_output=True,
    make=lambda config, num_classes, reading: Regress(config, (), reading),
)
