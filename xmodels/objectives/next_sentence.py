"""Next sentence prediction (Devlin et al., 2018, section 3.1, task 2)."""

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class NextSentence(SegmentPair):
    """Predicts whether the second segment follows the first (0) or is a random one (1)."""

    reads = needs = {"next_sentence_labels": Feature(())}
    classes = {"next_sentence_labels": ("second segment", ("follows", "is another"))}
