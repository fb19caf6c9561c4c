"""The dialogue language model's second task (Sun et al., 2019, arXiv 1904.09223, section 3.3.2)."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class Dialogue(SegmentPair):
    """Predicts whether all turns are from the same dialogue (1) or one of them was drawn from another one (0)."""

    reads = needs = {"dialogue_labels": Feature(())}
    classes = {"dialogue_labels": ("turns", ("one is drawn from elsewhere", "of one dialogue"))}
