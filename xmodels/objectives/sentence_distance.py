"""Sentence distance (Sun et al., 2020, arXiv 1907.12412, section 3.2.2)."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class SentenceDistance(SegmentPair):
    """Does the second segment follow the first (0), is it from elsewhere in the same document (1), or from another one (2)?"""

    reads = needs = {"distance_labels": Feature(())}
    classes = {"distance_labels": ("second segment", ("follows", "elsewhere in the document", "of another document"))}
