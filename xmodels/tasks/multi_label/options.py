"""Flags of `--task=multi_label`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(
    base.TemperatureOptions,
    base.WeightedOptions,
    base.DropoutOptions,
    base.PoolingOptions,
    base.FreezingOptions,
    base.FinetuneOptions,
):
    """Any number of labels for a text or a pair."""

    JOINS: ClassVar = True

    best_metric: str | None = base.best_metric_option(
        "micro_f1, macro_f1 or accuracy (all labels of a text right).", ("micro_f1", "macro_f1", "accuracy")
    )
    label_separator: str | None = option(None, "For --task=multi_label: separator between the labels of a text. Default: |.", structural=True, section=base.LABELS)  # fmt: skip
    label_softmax: bool = option(False, "For --task=multi_label: one softmax over all labels, of which a text learns each of its own with an equal share, as fastText's -loss softmax does on average. Default: each label for itself.", structural=True, section=base.HEAD)  # fmt: skip
