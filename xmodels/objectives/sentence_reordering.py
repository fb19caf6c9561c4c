"""Sentence reordering (Sun et al., 2020, arXiv 1907.12412, section 3.2.2)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.segment_pair import SegmentPair


class SentenceReordering(SegmentPair):
    """Predicts the permutation in which the parts of a paragraph are arranged.

    The metric `sentence_reordering_share` is the accuracy of always predicting the first class: that there is only one part.

    Args:
        orders: the permutations, in the order of their classes.
    """

    reads = {"sentence_start": Feature((None,))}
    needs = {"reordering_labels": Feature(())}

    def __init__(self, config, orders, **kwargs):
        names = ["".join(str(i + 1) for i in order) for order in orders]
        self.classes = {"reordering_labels": ("order of the parts", names)}
        super().__init__(config, **kwargs)

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        weights = ops.cast(batch["example_weights"], "float32")
        first = ops.cast(ops.equal(batch["reordering_labels"], 0), "float32")
        return losses, metrics | {f"{self.label}_share": (ops.sum(first * weights), ops.sum(weights))}
