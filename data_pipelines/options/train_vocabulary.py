"""Trains a vocabulary on your text, and reports how well it fits. The same text gives the same vocabulary.

xmodels train_vocabulary --input_file='corpus/*.txt' --language=en --vocab_size=30000 --output_file=vocab.txt
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import InputOptions
from data_pipelines.text.tokenizer_settings import CHOICES, TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(InputOptions):
    """What to read, which kind of vocabulary to train on it, and where to write it."""

    SECTION: ClassVar = "Text and labelled data"
    JOB: ClassVar = "data_pipelines.pretraining.vocabulary:train_vocabulary"

    tokenizer: str = option("wordpiece", "Kind of vocabulary: WordPiece (BERT), byte-level BPE (GPT-2, RoBERTa), BPE with an end-of-word marker (GPT-1), SentencePiece unigram (ALBERT, XLNet, T5), single characters, or whole words.", section="Vocabulary", choices=TOKENIZERS)  # fmt: skip
    vocab_size: int = option(30_000, "Number of entries, including the five special tokens.", minimum=1)
    do_lower_case: bool | None = option(None, "Lower-case the text and strip accents; right for uncased models and for Chinese. Default: yes, except for byte_bpe and sentencepiece.")  # fmt: skip
    min_frequency: int | None = option(None, "Leave out entries that occur less often. Default: 2. Not for sentencepiece.", minimum=1)  # fmt: skip
    segmenter: str | None = option(None, "For --tokenizer=words: how text is split into words. none: at punctuation and blanks. jieba: by jieba. presegmented: at blanks only, as in WikiText. Default: jieba for Chinese, else none.", choices=CHOICES["segmenter"])  # fmt: skip
    num_sentinels: int = option(0, "SentencePiece only: number of sentinel tokens <extra_id_0>, <extra_id_1>, … after the pieces, which --system=t5 writes for masked spans; 100 in T5. Above 0, the special tokens are T5's <pad>, </s>, <unk>.", minimum=0, maximum=100_000)  # fmt: skip
    output_file: str = option(REQUIRED, "Where to write the vocabulary: a file *.txt, *.json (BPE; the merges are written beside it) or *.model (SentencePiece); or a folder (a name without an ending), which also stores the settings.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output file.")
