"""The options of `xmodels train_vocabulary`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import InputOptions
from data_pipelines.text.tokenizer_settings import CHOICES, TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(InputOptions):
    """What to read, which kind of vocabulary to train on it, and where to write it."""

    JOB: ClassVar = "data_pipelines.pretraining.vocabulary:train_vocabulary"

    tokenizer: str = option("wordpiece", "Kind of vocabulary: word pieces (BERT), byte-level BPE (GPT-2, RoBERTa), BPE with an end of word (GPT-1), SentencePiece unigram (ALBERT, XLNet, T5), single characters, or whole words.", section="Vocabulary", choices=TOKENIZERS)  # fmt: skip
    vocab_size: int = option(30_000, "Number of entries, the five special tokens included.", minimum=1)
    do_lower_case: bool | None = option(None, "Lower-case and strip accents; right for uncased models and for Chinese. Default: yes, but for byte_bpe and sentencepiece.")  # fmt: skip
    min_frequency: int | None = option(None, "Leave out pieces that occur less often. Default 2; not for sentencepiece.", minimum=1)  # fmt: skip
    segmenter: str | None = option(None, "What parts words, for --tokenizer=words: punctuation and blanks (none), jieba, or blanks alone (presegmented), as in WikiText. Default: jieba for Chinese, else none.", choices=CHOICES["segmenter"])  # fmt: skip
    num_sentinels: int = option(0, "SentencePiece only: tokens <extra_id_0>, <extra_id_1>, … behind the pieces, which --system=t5 writes for hidden spans, and T5's special tokens <pad>, </s>, <unk>; 100 in T5.", minimum=0)  # fmt: skip
    output_file: str = option(REQUIRED, "Where to write the vocabulary: a file *.txt, *.json (BPE; its merges go beside it) or *.model (SentencePiece); or a folder, a name without an ending, which also remembers the settings.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output file.")
