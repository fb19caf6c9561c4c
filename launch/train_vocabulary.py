"""Trains a WordPiece vocabulary on text."""

import sys

from launch.command import Command

COMMAND = Command(
    "train_vocabulary",
    "Trains a WordPiece vocabulary on your text. Equal text gives an equal vocabulary.",
    "xmodels train_vocabulary --input_file='corpus/*.txt' --language=en --vocab_size=30000 --output_file=vocab.txt",
)
COMMAND.section("Input")
COMMAND.string("input_file", None, "Text files: comma-separated names or globs.", required=True)
COMMAND.choice("language", "en", ["en", "zh"], "Language of the text.")
COMMAND.choice("input_format", "auto", ["auto", "sentences", "text", "documents"], "One sentence a line with blank lines between documents; free prose; or one document a line.")  # fmt: skip
COMMAND.section("Vocabulary")
COMMAND.choice("tokenizer", "wordpiece", ["wordpiece"], "Kind of vocabulary.")
COMMAND.integer("vocab_size", 30_000, "Number of entries, the five special tokens included.", minimum=1)
COMMAND.boolean("do_lower_case", True, "Lower-case and strip accents; right for uncased models and for Chinese.")
COMMAND.integer("min_frequency", 2, "Leave out pieces that occur less often.", minimum=1)
COMMAND.section("Output")
COMMAND.string("output_file", None, "Where to write the vocabulary.", required=True)
COMMAND.boolean("overwrite", False, "Replace an existing output file.")


def run() -> None:
    from data_pipelines.jobs import train_vocabulary

    train_vocabulary(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
