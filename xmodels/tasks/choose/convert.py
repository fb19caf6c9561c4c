"""The head of a chooser in other formats."""

from xmodels.tasks.base.published_head import CHOICE, PublishedHead
from xmodels.tasks.choose.task import Choose

HEAD = PublishedHead(
    kind=CHOICE,
    has_one_output=True,
    make=lambda config, num_classes, reading: Choose(config, (), reading),
)
