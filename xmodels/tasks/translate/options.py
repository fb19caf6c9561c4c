"""Flags of `--task=translate`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.FinetuneOptions):
    """A text from a text."""

    JOINS: ClassVar = True

    best_metric: str | None = base.best_metric_option(
        "seq2seq_accuracy, the share of right tokens, or exact_match, the share of right texts.",
        ("seq2seq_accuracy", "exact_match"),
    )
    prefix: str = option("", "Text put before each input, in training and wherever the run is used, such as 'summarize: '.", section="Text from text: tables of two columns of text, source and target", structural=True)  # fmt: skip
    max_target_length: int | None = option(None, "Maximum length of a target in tokens; longer ones are truncated. Default: max_seq_length.", minimum=2, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """How targets are searched and compared."""

    target_file: str | None = option(None, "File with the references for test_file, line by line. Without it, test_file is a table of source and reference, by default in the columns given to finetune, or the first two.", section="Translations (docs/translation.md)")  # fmt: skip
    target_column: str | None = option(None, "Column of the reference: its name, or its position from 0 in a file without a header. Default: as given to finetune.")  # fmt: skip
    num_beams: int = option(
        1, "Number of beams. Above 1: beam search; 4 in the paper. 1: the most likely token each time.", minimum=1
    )
    length_penalty: float | None = option(None, "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART the exponent of the length. Default: that of the system, 0.6 for the Transformer.")  # fmt: skip
    no_repeat_ngram_size: int = option(0, "No n-gram of this many tokens occurs twice in a translation; 0: no such rule. 3 is usual for summaries.", minimum=0)  # fmt: skip
    min_new_tokens: int = option(0, "Minimum number of tokens of a translation.", minimum=0)
    max_new_tokens: int | None = option(None, "Maximum number of tokens of a translation. Default: 50 more than its source has.", minimum=1)  # fmt: skip
    bleu_tokenize: str = option("auto", "Tokenizer of sacreBLEU. auto: zh for Chinese references, else 13a.", choices=("auto", "13a", "intl", "zh", "char", "none"))  # fmt: skip
    rouge: bool = option(False, "Also compute ROUGE-1, -2 and -L, for summaries; needs the extra `rouge`.")
    lowercase: bool = option(False, "Ignore case in the comparison.")
    translations_file: str | None = option(None, "Also write the translations to this file, one a line.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How the signature of beam search searches."""

    num_beams: int | None = option(
        None,
        "Number of beams of the beam search signature. Default: that of the system, 4 for most.",
        section="Translators",
        minimum=2,
    )
    length_penalty: float | None = option(
        None,
        "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART and Marian the exponent of the length. Default: that of the system, 0.6 for the Transformer.",
    )
    no_repeat_ngram_size: int | None = option(None, "No n-gram of this many tokens occurs twice in the output; 3 is usual for summaries. Default: no such rule.", minimum=1)  # fmt: skip
    min_new_tokens: int | None = option(None, "Minimum number of tokens in the output. Default: no minimum.", minimum=1)  # fmt: skip
