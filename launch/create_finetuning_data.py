"""Turns labelled data into records for fine-tuning."""

import sys

from launch.command import Command

COMMAND = Command(
    "create_finetuning_data",
    "Turns labelled data into sharded records for fine-tuning. Checks every example, uses many processes, and resumes.",
    "xmodels create_finetuning_data --task=answer_span --input_file=train-v2.0.json --vocab_file=vocab.txt \\\n"
    "    --max_seq_length=384 --output_dir=records --num_workers=8",
)
COMMAND.section("Input")
COMMAND.choice("task", None, ["classify", "regress", "tag", "answer_span", "choose", "rank", "translate"], "classify: a label for a text or a pair. regress: a number for it. tag: a tag for every word. answer_span: questions answered by a span of a text. choose: one of several choices. rank: candidates by relevance. translate: text and translation.", required=True)  # fmt: skip
COMMAND.string("input_file", None, "Comma-separated names or globs, also .gz. Tables (.tsv, .csv, .jsonl) for classify, regress, rank, translate; CoNLL or .conllu for tag; SQuAD or CMRC JSON for answer_span; JSON lines, C3, DREAM or CSV for choose.", required=True)  # fmt: skip
COMMAND.string("target_file", None, "For translate: the translations, line by line; then input_file is plain text too.")
COMMAND.string("text_column", None, "Column of the text: its name, or its position from 0 in a file without header. For tag the position of the words.")  # fmt: skip
COMMAND.string("text_pair_column", None, "Column of the second text, the candidate or the translation.")
COMMAND.string("label_column", None, "Column of the label, score or tag. For tag the default is the last column.")
COMMAND.choice("tag_scheme", "bio", ["bio", "none"], "bio: spans; IOB1, BIOES and BILOU become BIO. none: tags as they stand, such as parts of speech.")  # fmt: skip
COMMAND.section("Labels")
COMMAND.string("labels", None, "Comma-separated names of the labels in the order of their ids. Default: those in the data, sorted.")  # fmt: skip
COMMAND.string("labels_from", None, "A folder of records whose labels these must share: the training records, for dev and test.")  # fmt: skip
COMMAND.choice("on_bad_example", "fail", ["fail", "drop"], "What to do with examples that cannot be used: unknown labels, answers that do not stand in the text, duplicate ids, empty texts. drop counts and names them.")  # fmt: skip
COMMAND.section("Tokens")
COMMAND.string("vocab_file", None, "Vocabulary: a file, or a folder with one.", required=True)
COMMAND.choice("tokenizer", "auto", ["auto", "wordpiece", "byte_bpe", "bpe", "sentencepiece", "characters", "words"], "Kind of the vocabulary; auto tells by the file.")  # fmt: skip
COMMAND.boolean("do_lower_case", None, "Lower-case and strip accents. Default: as the vocabulary says, or as usual.")
COMMAND.integer("max_seq_length", 128, "Length of an example with its special tokens.", minimum=1)
COMMAND.choice("on_long_text", None, ["cut", "drop"], "What to do with longer ones. Default: cut; for translate drop.")
COMMAND.section("Questions, choices, lists")
COMMAND.integer("max_query_length", 64, "Longer questions are cut.", minimum=1)
COMMAND.integer("doc_stride", 128, "Tokens between the beginnings of two windows over a long text.", minimum=1)
COMMAND.integer("num_choices", 0, "Choices a record; questions with fewer get empty ones. 0: as many as the data has.")
COMMAND.integer("list_size", 0, "Candidates a record. 0: as many as the longest list.")
COMMAND.choice("long_lists", "split", ["split", "sample"], "Longer lists become several records, or keep the relevant candidates and some of the others.")  # fmt: skip
COMMAND.integer("random_seed", 12345, "Seed of the sample.")
COMMAND.section("Output and work")
COMMAND.string("output_dir", None, "New folder for the records and their manifest.", required=True)
COMMAND.integer("num_shards", 0, "Number of files; 0 chooses by the size of the data.")
COMMAND.integer("num_workers", 1, "Processes. The records do not depend on it.", minimum=1)
COMMAND.string("task_index", None, "Of several machines or processes this one's number, from 0; merge joins what they have made.")  # fmt: skip
COMMAND.integer("num_tasks", None, "How many share the work; all with the same flags but for task_index.", minimum=1)
COMMAND.boolean("resume", False, "Go on with an unfinished output_dir; finished shards are kept.")
COMMAND.boolean("overwrite", False, "Replace the records in output_dir.")


def run() -> None:
    from data_pipelines.finetuning.command import create_finetuning_data

    create_finetuning_data(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
