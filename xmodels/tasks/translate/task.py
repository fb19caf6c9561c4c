"""Generate a text from a text, such as its translation or its summary (Raffel et al., 2019, section 2.4)."""

from data_pipelines.features import Feature
from xmodels.objectives.measures import whole_row_accuracy
from xmodels.objectives.pondering import PONDER_WEIGHT, ponder_losses
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.tasks.base.task import Task


class Translate(Seq2Seq, Task):
    """`Seq2Seq` on pairs of texts; the network has the output matrix, so the task has no weights. A network that decides about its
    number of steps pays for them as in its training.

    Args:
        config: the configuration of the backbone.
        labels: none; what is written has no names.
        label_smoothing, smoothing_over: as of `Seq2Seq`.
        prefix: what stands before each source; the task does not use it, its run keeps it.
        ponder_weight: as of `PonderingSeq2Seq`.
    """

    title = "Writer of text from text"
    reads = {"token_ids": Feature((None,)), "target_ids": Feature((None,)), **Seq2Seq.needs}
    names_labels = False

    def __init__(
        self, config, labels, label_smoothing: float = 0.1, prefix: str = "", ponder_weight: float = PONDER_WEIGHT, **kwargs
    ):  # fmt: skip
        super().__init__(label_smoothing, **kwargs)
        self.prefix_of_texts, self.ponder_weight = prefix, ponder_weight

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        if "encoder_ponder_times" not in outputs:
            return losses, metrics
        costs, steps = ponder_losses(outputs, batch, self.ponder_weight)
        return losses | costs, metrics | steps

    def score_logits(self, batch, logits):
        """Returns those of `Seq2Seq`, and `exact_match`: how many targets are named without a fault. These are the ones that
        the network writes whole when it takes the likeliest token each time, so it is the accuracy of a classifier whose labels
        are texts."""
        losses, metrics = super().score_logits(batch, logits)
        whole = whole_row_accuracy(batch["labels"], logits, batch["label_weights"], batch["example_weights"])
        return losses, metrics | {"exact_match": whole}
