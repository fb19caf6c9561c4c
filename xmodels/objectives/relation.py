"""Classification of pairs of texts with labels from a file: the base class of `DiscourseRelation` and `Relevance`."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class Relation(SegmentPair):
    """Predicts the label of a pair of texts.

    Args:
        title: what the label describes, for reports.
        names: the names of the labels, in the order of their ids.
    """

    reads = needs = {"labels": Feature(())}

    def __init__(self, config, title, names, **kwargs):
        self.classes = {"labels": (title, list(names))}
        super().__init__(config, **kwargs)
