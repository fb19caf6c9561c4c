"""Flags of `--task=answer_span`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.WindowOptions, base.FinetuneOptions):
    """Questions answered by a span of a text."""

    max_query_length: int | None = option(None, "Maximum length of a question in tokens; longer ones are truncated. Default: 64, at most half of max_seq_length.", minimum=1, structural=True, section="Answers in texts: files of SQuAD or CMRC 2018, by train_file, eval_file and test_file")  # fmt: skip
    n_best_size: int | None = option(None, "Number of most likely starts, ends and answers that are considered. Default: 20.", minimum=1)  # fmt: skip
    max_answer_length: int | None = option(None, "Maximum length of an answer in tokens. Default: 30.", minimum=1)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """How answers are compared."""

    answer_metric: str | None = option(None, "Official script that defines how answers are compared: that of SQuAD 1.1, SQuAD 2.0 or CMRC 2018. Default: detected from the file.", section="Answers in texts (docs/answer_span.md)", choices=("squad1", "squad2", "cmrc2018"))  # fmt: skip
