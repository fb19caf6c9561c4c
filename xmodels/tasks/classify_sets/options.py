"""Flags of `--task=classify_sets`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base

SETS = "Sets of vectors (docs/set_transformer.md)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetOptions:
    """Where the vectors stand."""

    points_column: str | None = option(None, "Field, column or array of the vectors of a set. Default: points; in predict and evaluate as given to finetune.", section=SETS)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(SetOptions, base.WeightedOptions, base.DropoutOptions, base.FinetuneOptions):
    """A label for a set of vectors."""

    best_metric: str | None = base.best_metric_option("accuracy, macro_f1 or mcc.", ("accuracy", "macro_f1", "mcc"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(SetOptions):
    """Where the vectors stand."""
