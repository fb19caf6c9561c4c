"""Flags of `--task=fast_classify`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.layers.exits import DISTILLATIONS
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.WeightedOptions, base.PoolingOptions, base.FinetuneOptions):
    """Labels, from a network that texts leave early."""

    distill_file: str | None = option(None, "Unlabelled texts for the second phase: a .txt with one text a line, or a table. Default: the texts of train_file or data_dir.", section="Early exit: network and teacher learn from labels, then students from the teacher", structural=True)  # fmt: skip
    distill_epochs: float | None = option(None, "Epochs of the second phase; 0 leaves it out. Default: 5.")  # fmt: skip
    distill_learning_rate: float | None = option(None, "Peak learning rate of the second phase. Default: 2e-4; small networks need more.")  # fmt: skip
    distill_divergence: str | None = option(None, "Divergence between student and teacher. teacher_first: sum p_t log(p_t / p_s), as in the released code. student_first: sum p_s log(p_s / p_t), as in the paper. Default: teacher_first.", choices=DISTILLATIONS, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.ExitOptions):
    """When texts leave."""

    speed: str | None = option(None, "Early exit speeds, comma-separated; each gives a row of the table. Default: 0,0.1,0.3,0.5,0.8.", section=base.EARLY_EXIT)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictOptions(base.ExitOptions):
    """When texts leave."""

    speed: float | None = option(None, "A text exits at the first layer where the uncertainty of its label is below this. 0: none exits before the last layer. 1: all exit after the first. Default: 0.1.", section=base.EARLY_EXIT, minimum=0, maximum=1.0)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """When texts leave."""

    speed: float | None = option(None, "Early exit speed for requests that give none. Default: 0.1.", section=base.EARLY_EXIT, minimum=0, maximum=1.0)  # fmt: skip
