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
class StateOptions(base.TemperatureOptions, LabelOptions, base.PoolingOptions, base.FreezingOptions):
    """One label, of one state."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(StateOptions):
    """Labels of single texts, or of pairs."""

    IS_DEFAULT: ClassVar = True
    COMPARES: ClassVar = True

    hierarchical_softmax: bool = option(False, "Predict a label by decisions on its way through a Huffman tree of the labels, as fastText's -loss hs. Default: a softmax over all labels.", section=base.HEAD, structural=True)  # fmt: skip
