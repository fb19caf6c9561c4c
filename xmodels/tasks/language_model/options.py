"""Flags of `--task=language_model`."""

import dataclasses

from data_pipelines.options.declaration import SWITCH, option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.LengthOptions):
    """What is scored, and how running text is cut."""

    form: str = option("text", "text: perplexity of running text. last_word: predict the last word of each passage, as in LAMBADA. choice: which candidate fits the gap XXXXX, as in the Children's Book Test.", section=base.LANGUAGE_MODELS, choices=("text", "last_word", "choice"))  # fmt: skip
    detokenize: str = option("none", "Undo the tokenization of such a corpus before the network reads it. Word perplexity still counts the words and line ends of the file.", choices=("none", "wikitext", "ptb"))  # fmt: skip
    input_format: str = option("auto", "How to read running text. verbatim: files, or the texts of JSON lines, as they are. Other formats: documents, as create_pretraining_data reads them. auto: as the records of the run were made; without records, verbatim.", choices=("auto", "verbatim", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet"))  # fmt: skip
    stride: int | None = option(None, "Tokens between the starts of two windows. In each window only tokens that no earlier window has scored are scored. Default: half a window.", minimum=1)  # fmt: skip
    stop_word_filter: bool = option(False, "With --form=last_word: predict no English stop words.")
    mem_length: str | None = option(None, "Transformer-XL: length of the memory in tokens. Several lengths, such as 0,64,128, give a table. Default: as in training.")  # fmt: skip
    same_length: str | bool = option("auto", "Transformer-XL: every token sees the same number of tokens before it. auto: as in training.", choices=SWITCH)  # fmt: skip
    clamp_length: int | None = option(None, "Transformer-XL: larger distances are treated as this one; 0: no bound. Default: as in training.")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How much is written."""

    max_new_tokens: int | None = option(None, "Maximum number of tokens that are written after a prompt. Default: 64.", section="Text generators", minimum=1)  # fmt: skip
