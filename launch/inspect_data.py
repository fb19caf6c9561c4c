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
    "With --vocab_file, tells how a vocabulary fits a corpus; with --contamination, how much of a test set stands in one.",
    "xmodels inspect_data --data_dir=records --objective=spans --verify\n"
    "xmodels inspect_data --vocab_file=vocab.txt --input_file='corpus/*.txt'\n"
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
COMMAND.section("Instead of all above: a vocabulary, or test sets, beside a corpus")
COMMAND.string("vocab_file", None, "Vocabulary, a file or a folder: the share of unknown tokens in the corpus, what is lost most often, entries that are never used.")  # fmt: skip
COMMAND.string("contamination", None, "Test files, tables or text with an example a line: how many of their runs of 8 words (in Chinese: of characters) stand in the corpus.")  # fmt: skip
COMMAND.string("input_file", None, "The corpus. Default: the one that --data_dir was made from.")
COMMAND.choice("language", "en", ["en", "zh"], "Language of --input_file.")
COMMAND.choice("input_format", "auto", ["auto", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet", "wikiextractor", "dialogue", "parallel"], "How to read --input_file.")  # fmt: skip
COMMAND.section("Vocabulary")
COMMAND.choice("tokenizer", "auto", ["auto", "wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"], "Kind of the vocabulary; auto tells by the file.")  # fmt: skip
COMMAND.boolean("do_lower_case", None, "Lower-case and strip accents. Default: as the vocabulary says, or as usual.")
COMMAND.string("text_field", None, "Field or column of --input_file that holds the text. Default: the usual names.")
COMMAND.number("megabytes", 5.0, "How much of the corpus to read, from places at equal distances; 0 reads all.")
COMMAND.section("Contamination")
COMMAND.string("text_column", None, "Column of the text in test tables, by name or position.")
COMMAND.string("text_pair_column", None, "Column of the second text, if any.")
COMMAND.integer("num_worst", 5, "Most contaminated examples to print of each file.")

CORPUS = ("input_file", "language", "input_format")
VOCABULARY = ("tokenizer", "do_lower_case", "text_field", "megabytes")
CONTAMINATION = ("text_column", "text_pair_column", "num_worst")


def run() -> None:
    options = COMMAND.options()
    contamination, vocabulary = options.pop("contamination"), options.pop("vocab_file")
    corpus, of_vocabulary, of_tests = (
        {name: options.pop(name) for name in names} for names in (CORPUS, VOCABULARY, CONTAMINATION)
    )
    if contamination and vocabulary:
        raise UsageError("--contamination and --vocab_file ask for two reports; give one of them.")
    if contamination:
        from data_pipelines.pretraining.command import check_contamination

        check_contamination(contamination, options["data_dir"], **corpus, **of_tests)
        return
    if vocabulary:
        from data_pipelines.text.vocabulary_job import report_vocabulary

        report_vocabulary(vocabulary, options["data_dir"], **corpus, **of_vocabulary)
        return
    if not options["data_dir"]:
        raise UsageError(
            "--data_dir: name a folder of records; or a vocabulary with --vocab_file, or a test set with --contamination, "
            "and --input_file."
        )
    with quiet_start():
        from data_pipelines.inspect.inspection import inspect

    inspect(check=options.pop("verify"), **options)


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
