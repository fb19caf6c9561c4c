"""Flags of `--task=answer_beam`: those of `answer_span`, and the width of the beam."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.answer_span import options as answer_span


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(answer_span.FinetuneOptions):
    """Questions answered by a span, whose end depends on its start."""

    start_n_top: int | None = option(None, "For answer_beam: number of most likely starts for which ends are predicted. Default: 5.", minimum=1, section="Answers in texts: files of SQuAD or CMRC 2018, by train_file, eval_file and test_file")  # fmt: skip
    end_n_top: int | None = option(None, "For answer_beam: number of most likely ends for each start. Default: 5.", minimum=1)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(answer_span.EvaluateOptions):
    """How answers are compared."""
