"""Relations of two texts that labelled files give: what `DiscourseRelation` and `Relevance` share."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class Relation(SegmentPair):
    """Which of the named labels has the pair?

    Args:
        title: what the label is, for people.
        names: the labels, in the order of their ids.
    """

    reads = needs = {"labels": Feature(())}

    def __init__(self, config, title, names, **kwargs):
        self.classes = {"labels": (title, list(names))}
        super().__init__(config, **kwargs)
