"""Trains a vocabulary on text."""

import sys

from launch import input_flags
from launch.command import Command

COMMAND = Command(
    "train_vocabulary",
    "Trains a vocabulary on your text, and reports how it fits. Equal text gives an equal vocabulary.",
    "xmodels train_vocabulary --input_file='corpus/*.txt' --language=en --vocab_size=30000 --output_file=vocab.txt",
)
input_flags.add(COMMAND)
COMMAND.section("Vocabulary")
COMMAND.choice("tokenizer", "wordpiece", ["wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"], "Kind of vocabulary: word pieces (BERT), byte-level BPE (GPT-2, RoBERTa), BPE with an end of word (GPT-1), SentencePiece unigram (ALBERT, XLNet, T5), single characters, or whole words.")  # fmt: skip
COMMAND.integer("vocab_size", 30_000, "Number of entries, the five special tokens included.", minimum=1)
COMMAND.boolean(
    "do_lower_case",
    None,
    "Lower-case and strip accents; right for uncased models and for Chinese. Default: yes, but for byte_bpe and sentencepiece.",
)
COMMAND.integer(
    "min_frequency", None, "Leave out pieces that occur less often. Default 2; not for sentencepiece.", minimum=1
)
COMMAND.choice("segmenter", None, ["none", "jieba", "presegmented"], "What parts words, for --tokenizer=words: punctuation and blanks (none), jieba, or blanks alone (presegmented), as in WikiText. Default: jieba for Chinese, else none.")  # fmt: skip
COMMAND.section("Output")
COMMAND.string(
    "output_file",
    None,
    "Where to write the vocabulary: a file *.txt, *.json (BPE; its merges go beside it) or *.model (SentencePiece); or a folder, a name without an ending, which also remembers the settings.",
    required=True,
)
COMMAND.boolean("overwrite", False, "Replace an existing output file.")


def run() -> None:
    from data_pipelines.text.vocabulary_job import train_vocabulary

    train_vocabulary(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
