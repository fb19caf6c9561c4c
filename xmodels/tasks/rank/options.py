"""Flags of `--task=rank`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.DropoutOptions, base.PoolingOptions, base.FreezingOptions, base.FinetuneOptions):
    """Candidates of a query by their relevance."""

    JOINS: ClassVar = True
    HAS_ONE_OUTPUT: ClassVar = True

    list_size: int | None = option(None, "Candidates per list in training. From longer lists, the relevant ones and a random sample of the others are taken. Default: 8.", minimum=2, section="Rankings: queries with candidates, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    redraw_lists: bool = option(False, "Draw the candidates of longer lists anew in every epoch instead of once. All candidates are then kept in memory.", structural=True)  # fmt: skip
    rank_loss: str | None = option(None, "listwise: a softmax over the candidates of a list. pairwise: every pair in which one candidate is more relevant. Default: listwise.", choices=("listwise", "pairwise"), structural=True)  # fmt: skip
    rank_scale: float | None = option(None, "Factor for the scores before the softmax or sigmoid of the loss (MT-DNN's gamma). With a larger one, differences between scores count more. Default: 1.", structural=True)  # fmt: skip
    relevant_label: str | None = option(None, "If labels are names: the label of relevant candidates, such as entailment. All other candidates are not relevant. Default: labels are numbers from 0.", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Which candidates are relevant."""

    relevant_label: str | None = option(None, "If labels are names: the label of relevant candidates. Default: as given to finetune.", section="Rankings (docs/rank.md)")  # fmt: skip
