"""Targets behind their sources in one row, for networks that write so (Dong et al., 2019, arXiv 1905.03197, section 2.5)."""

from xmodels.objectives.unilm import TargetMaskedLM
from xmodels.tasks.base.task import Task


class TranslateInRow(TargetMaskedLM, Task):
    """`TargetMaskedLM` on pairs of texts. Its head is that of the pretraining, under whose name it is stored.

    Args:
        config: the configuration of the backbone.
        corrupt: the op that makes a row of a pair and hides tokens of its target.
        label_smoothing, padding_id: as of `TargetMaskedLM`.
        prefix: what stands before each source; the task does not use it, its run keeps it.
    """

    title = "Writer of text from text"
    label = "translate"
    prefix = f"objective.{TargetMaskedLM.label}"
    names_labels = False

    def __init__(self, config, corrupt, label_smoothing: float, padding_id: int, prefix: str = "", **kwargs):
        super().__init__(config, corrupt, label_smoothing, padding_id, **kwargs)
        self.prefix_of_texts = prefix
        self.head.dense.build((None, None, config.hidden_dim))  # a checkpoint has weights for it
        self.head.norm.build((None, None, config.embedding_dim))
