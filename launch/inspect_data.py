"""Shows what records hold."""

import sys

from data_pipelines.errors import UsageError
from launch.command import Command
from xmodels.jobs.quiet import quiet_start

OBJECTIVES = [
    "masked_lm", "whole_words", "ngrams", "spans", "phrases", "entities", "unilm", "mass", "text_infilling",
    "sentence_permutation", "bart", "span_corruption", "permutation_lm",
]  # fmt: skip

COMMAND = Command(
    "inspect_data",
    "Shows records: decoded examples with their hidden tokens, statistics of the masking, and whether files are whole. "
    "With --contamination, tells how much of a test set stands in a corpus.",
    "xmodels inspect_data --data_dir=records --objective=spans --verify\n"
    "xmodels inspect_data --contamination='test*.tsv' --input_file='corpus/*.txt'",
)
COMMAND.section("Data")
COMMAND.string("data_dir", None, "Records of create_pretraining_data.")
COMMAND.boolean("verify", False, "Compare the SHA-256 of every shard with the manifest.")
COMMAND.section("What to show")
COMMAND.choice(
    "objective", "whole_words", OBJECTIVES, "What to do to clean records; docs/corruptions.md explains each."
)
COMMAND.choice("wwm_replace_unit", "token", ["token", "word"], "Whether the tokens of a whole word share one fate.")
COMMAND.integer("num_examples", 3, "Examples to print, at most 64.", minimum=1)
COMMAND.integer("num_statistics", 2000, "Examples for the statistics of the masking.", minimum=1)
COMMAND.integer("seed", 0, "Another seed draws other masks.")
COMMAND.section("Contamination of test sets (instead of all above)")
COMMAND.string("contamination", None, "Test files, tables or text with an example a line: how many of their runs of 8 words (in Chinese: of characters) stand in the corpus.")  # fmt: skip
COMMAND.string("input_file", None, "The corpus. Default: the one that --data_dir was made from.")
COMMAND.choice("language", "en", ["en", "zh"], "Language of --input_file.")
COMMAND.choice("input_format", "auto", ["auto", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet", "wikiextractor", "dialogue", "parallel"], "How to read --input_file.")  # fmt: skip
COMMAND.string("text_column", None, "Column of the text in test tables, by name or position.")
COMMAND.string("text_pair_column", None, "Column of the second text, if any.")
COMMAND.integer("num_worst", 5, "Most contaminated examples to print of each file.")

CONTAMINATION = ("input_file", "language", "input_format", "text_column", "text_pair_column", "num_worst")


def run() -> None:
    options = COMMAND.options()
    contamination = options.pop("contamination")
    values = {name: options.pop(name) for name in CONTAMINATION}
    if contamination:
        from data_pipelines.jobs import check_contamination

        check_contamination(contamination, options["data_dir"], **values)
        return
    if not options["data_dir"]:
        raise UsageError("--data_dir: name a folder of records; or a test set with --contamination, and --input_file.")
    with quiet_start():
        from data_pipelines.inspection import inspect

    inspect(check=options.pop("verify"), **options)


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
