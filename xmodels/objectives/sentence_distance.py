"""Sentence distance (Sun et al., 2020, arXiv 1907.12412, section 3.2.2)."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class SentenceDistance(SegmentPair):
    """Predicts whether the second segment follows the first (0), is from elsewhere in the document (1), or from another one (2)."""

    reads = needs = {"distance_labels": Feature(())}
    classes = {"distance_labels": ("second segment", ("follows", "elsewhere in the document", "of another document"))}
