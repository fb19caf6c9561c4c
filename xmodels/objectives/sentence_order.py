"""Sentence-order prediction (Lan et al., 2019, section 3.1)."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class SentenceOrder(SegmentPair):
    """Predicts whether two consecutive segments of a text are in order (0) or swapped (1)."""

    reads = needs = {"sentence_order_labels": Feature(())}
    classes = {"sentence_order_labels": ("segments", ("in order", "swapped"))}
