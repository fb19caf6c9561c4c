"""Flags of `--task=classify`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(base.WeightedOptions, base.DropoutOptions, base.FinetuneOptions):
    """One label, whatever the head reads."""

    JOINS: ClassVar = True

    best_metric: str | None = base.best_metric_option(
        "accuracy, macro_f1, mcc, or with two labels positive_f1 (of the positive one) or roc_auc (whatever the threshold).",
        ("accuracy", "positive_f1", "macro_f1", "mcc", "roc_auc"),
    )
    positive_label: str | None = option(None, "With two labels: the positive one, to which positive_f1, roc_auc and tune_threshold refer. Default: the second in sorted order.", structural=True, section=base.LABELS)  # fmt: skip
    tune_threshold: bool = option(False, "With two labels: predict the positive one from the probability that gives the best best_metric on eval_file, instead of from 0.5.", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(LabelOptions, base.PoolingOptions, base.FreezingOptions):
    """Labels of single texts, or of pairs."""

    IS_DEFAULT: ClassVar = True
    COMPARES: ClassVar = True

    teacher: str | None = option(None, "Fine-tuned run or model folder of --task=classify with the same labels. The network learns its probabilities beside the labels; it may be any other network with any vocabulary.", section="Learning from a teacher", structural=True)  # fmt: skip
    distill_temperature: float = option(2.0, "Temperature at which both say their probabilities.", structural=True)
    distill_share: float = option(0.5, "Share of the loss that the teacher has; 1: labels count for nothing.", maximum=1.0, structural=True)  # fmt: skip
    distill_layers: str | None = option(None, "TinyBERT: before the task, let the layers learn from those of the teacher, in a run of its own in model_dir/teacher_layers: embeddings, hidden (states), attention (scores), separated by commas, or all. Both must read the same tokens.", structural=True)  # fmt: skip
    distill_layers_epochs: float = option(10.0, "Epochs of that phase.", structural=True)
    distill_layers_learning_rate: float | None = option(None, "Peak learning rate of that phase. Default: learning_rate.", structural=True)  # fmt: skip
    distill_layer_map: str = option("uniform", "From which of the teacher's N layers layer m of M learns. uniform: m N / M. top: m + N - M. bottom: m. Or pairs, such as 1:2,2:4, counted from 1.", structural=True)  # fmt: skip
