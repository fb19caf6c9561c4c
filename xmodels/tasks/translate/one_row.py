"""Targets behind their sources in one row, for networks that write so (Dong et al., 2019, arXiv 1905.03197, section 2.5)."""

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.ops.unilm import frame_source_and_target, mask_targets
from data_pipelines.text.vocabulary import PAD
from xmodels.models.folder import assign
from xmodels.objectives.unilm import TargetMaskedLM
from xmodels.systems import unilm
from xmodels.tasks.base.task import Task
from xmodels.tasks.translate.two_sides import TwoSides, padded
from xmodels.training.watching.progress import print_status


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


class OneRow(TwoSides):
    """How a network learns that reads source and target in one row."""

    decisive = "masked_lm_accuracy"

    def __init__(self, options, writing, vocabulary, own=None):
        super().__init__(options, writing, vocabulary, own)
        self.num_positions += options.max_target_length or options.max_seq_length

    def check(self, model, longest):
        options, length = self.options, self.num_positions
        if length > longest and not options.extend_positions:
            raise UsageError(
                f"--max_seq_length={options.max_seq_length}, --max_target_length={length - options.max_seq_length}: together {length}"
                f", but source and target share the {longest} positions of a {model}. Give less, or --extend_positions."
            )
        for flag in ("best_metric", "length_buckets", "tokens_per_batch"):
            if value := getattr(options, flag):
                raise UsageError(
                    f"--{flag}={value}: not for a {model}, whose rows hold source and target. Leave it out."
                )

    def arrays(self, sources, targets):
        """Returns what `frame_source_and_target` reads, and where rows are real."""
        pairs = [(source[1:-1], target[:-1]) for source, target in zip(sources, targets, strict=True)]  # the ids alone
        lengths = np.array([[len(source), len(target)] for source, target in pairs], np.int32)  # (N, 2)
        # `[CLS] source [SEP] target [SEP]`
        real = np.arange(self.num_positions) < lengths.sum(axis=1, keepdims=True) + 3  # (N, L)
        token_ids, _ = padded(
            [[*source, *target] for source, target in pairs], self.vocabulary[PAD], self.num_positions
        )
        return {"token_ids": token_ids, "segment_lengths": lengths, "padding_mask": real}

    @property
    def identity(self):
        own = self.own or unilm.Options()
        return {"as_pretrained": {name: getattr(own, name) for name in ("label_smoothing", "target_masking_rate")}}

    def task(self, config):
        own, length = self.own or unilm.Options(), self.num_positions
        hidden = max(1, round(own.target_masking_rate * (length - self.options.max_seq_length)))
        frame = frame_source_and_target(self.vocabulary, length)
        corrupt = compose(frame, mask_targets(self.vocabulary, own.target_masking_rate, hidden))
        return TranslateInRow(config, corrupt, own.label_smoothing, self.vocabulary[PAD], self.options.prefix)

    def take_head(self, task, loaded):
        if "masked_lm" in loaded.heads:
            assign(task.prefix, task, loaded.values, self.options.init_checkpoint)
        else:
            print_status(f"{self.options.init_checkpoint} has no head of a masked language model; a new one is learnt.")
