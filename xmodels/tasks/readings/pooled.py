"""BERT's way: `[CLS] A [SEP] B [SEP]`, and the pooled state of the first token (Devlin et al., 2018, section 4.1)."""

from data_pipelines.text.frames import BERT
from xmodels.layers.initialization import truncated_normal

# Appendix A.3: the middle of the ranges.
NUMBERS = {"learning_rate": 5e-5, "warmup_proportion": 0.1, "optimizer": "bert_adamw", "lr_schedule": "bert_linear"}


class Reading:
    """What a task needs to know of a network that pools.

    Args:
        vocabulary: of the network.

    Attributes:
        frame: where special tokens stand around the texts.
        tokens: special tokens that are added to a vocabulary that lacks them.
        asks_first: whether a question stands with its context, and not with the choice that answers it.
        numbers: of a fine-tuning, where flags give none.
    """

    frame = BERT
    tokens: tuple[str, ...] = ()
    asks_first = False
    numbers = NUMBERS

    def __init__(self, vocabulary=None):
        pass

    def initializer(self, config):
        """Of the kernel of a head; make one for each."""
        return truncated_normal(config.initializer_stddev)

    def summary(self, outputs, batch):
        """The state that answers, (B, D), from what the network says to a batch of B sequences."""
        return outputs["pooled_output"]
