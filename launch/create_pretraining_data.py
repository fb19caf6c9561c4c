"""Turns raw text into records for pretraining."""

import sys

from launch.command import Command

COMMAND = Command(
    "create_pretraining_data",
    "Turns raw text into sharded records for pretraining. Streams, uses many processes, and resumes.",
    "xmodels create_pretraining_data --input_file='corpus/*.txt' --vocab_file=vocab.txt --output_dir=records \\\n"
    "    --language=zh --do_whole_word_mask --segmenter=jieba --num_workers=8",
)
COMMAND.section("Input")
COMMAND.string("input_file", None, "Text files: comma-separated names or globs.", required=True)
COMMAND.string("vocab_file", None, "Vocabulary, one piece a line.", required=True)
COMMAND.choice("language", "en", ["en", "zh"], "Language of the text.")
COMMAND.choice("input_format", "auto", ["auto", "sentences", "text", "documents"], "One sentence a line with blank lines between documents; free prose, paragraphs parted by blank lines; or one document a line.")  # fmt: skip
COMMAND.boolean("do_lower_case", True, "Lower-case and strip accents. Must agree with the vocabulary.")
COMMAND.section("Words")
COMMAND.boolean("do_whole_word_mask", False, "Mark words, so that all pieces of a word are hidden together. Chinese needs a segmenter.")  # fmt: skip
COMMAND.choice("segmenter", "none", ["jieba", "presegmented", "none"], "What tells words apart in Chinese: jieba, or blanks in pre-segmented text.")  # fmt: skip
COMMAND.section("Examples")
COMMAND.integer("max_seq_length", 128, "Length of an example with its special tokens.", minimum=1)
COMMAND.integer(
    "max_predictions_per_seq", 20, "Most hidden tokens in an example; about max_seq_length * masked_lm_prob."
)
COMMAND.number("masked_lm_prob", 0.15, "Share of tokens to hide.")
COMMAND.number("short_seq_prob", 0.1, "Share of documents cut into shorter examples.")
COMMAND.integer(
    "dupe_factor", None, "Passes over the corpus with other pairs. Default 1; with static masking 10, as Google's."
)
COMMAND.choice("masking", "dynamic", ["dynamic", "static"], "dynamic: clean records, masked anew in every epoch. static: Google's record layout.")  # fmt: skip
COMMAND.integer("random_seed", 12345, "Seed of all random choices.")
COMMAND.section("Output and work")
COMMAND.string("output_dir", None, "New folder for the records and their manifest.", required=True)
COMMAND.integer("num_shards", 0, "Number of files; 0 chooses by the size of the corpus.")
COMMAND.integer("num_workers", 1, "Processes. The records do not depend on it.", minimum=1)
COMMAND.boolean("resume", False, "Go on with an unfinished output_dir; finished shards are kept.")
COMMAND.boolean("overwrite", False, "Replace the records in output_dir.")


def run() -> None:
    from data_pipelines.jobs import create_pretraining_data

    create_pretraining_data(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
