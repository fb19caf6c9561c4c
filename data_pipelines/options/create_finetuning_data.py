"""The options of `xmodels create_finetuning_data`."""

import dataclasses
from typing import ClassVar

from data_pipelines.finetuning.listing import MEANINGS, TASKS
from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option
from data_pipelines.text.tokenizer_settings import TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """All that shapes the records."""

    INHERITED_FIRST: ClassVar = True

    task: str = option(REQUIRED, "What the labels are:", section="Input", choices=tuple(TASKS), values=MEANINGS)  # fmt: skip
    input_file: str = option(REQUIRED, "Comma-separated names or globs, also .gz. Tables (.tsv, .csv, .jsonl) for classify, multi_label, regress, rank, siamese, translate; CoNLL or .conllu for tag; SQuAD or CMRC JSON for answer_span; JSON lines, C3, DREAM or CSV for choose; bAbI's files or its folder for answer_story.")  # fmt: skip
    target_file: str | None = option(None, "For translate: the translations, line by line; then input_file is plain text too.")  # fmt: skip
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without header. For tag the position of the words.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, the candidate or the translation.")
    negative_column: str | None = option(None, "For siamese: column of a third text, which does not match the first.")
    label_column: str | None = option(
        None, "Column of the label, score or tag. For tag the default is the last column."
    )
    tag_scheme: str = option("bio", "bio: spans; IOB1, BIOES and BILOU become BIO. none: tags as they stand, such as parts of speech.", choices=("bio", "none"))  # fmt: skip
    bad_tags: str = option("repair", "Tags that cannot be, such as I-X behind O in BIO: read as conlleval does and counted, or refused as on_bad_row says.", choices=("repair", "refuse"))  # fmt: skip
    labels: str | None = option(None, "Comma-separated names of the labels in the order of their ids. Default: those in the data, sorted.", section="Labels")  # fmt: skip
    label_separator: str | None = option(None, "For multi_label: what stands between the labels of a text. Default: |.")
    labels_from: str | None = option(None, "A folder of records whose labels these must share: the training records, for dev and test.")  # fmt: skip
    on_bad_row: str = option("fail", "Rows, questions and lists that cannot be used (unknown or empty labels, quotes that nothing closes, missing columns, answers that do not stand in the text, duplicate ids, empty texts): stop and name them, or leave them out, count them and name the first.", choices=("fail", "skip"))  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary: a file, or a folder with one. Only stories need none: by default it is their words.", section="Tokens")  # fmt: skip
    tokenizer: str = option("auto", "Kind of the vocabulary; auto tells by the file.", choices=("auto", *TOKENIZERS))
    do_lower_case: bool | None = option(None, "Lower-case and strip accents. Default: as the vocabulary says, or as usual.")  # fmt: skip
    max_seq_length: int = option(128, "Length of an example with its special tokens.", minimum=1)
    on_long_text: str | None = option(None, "What to do with longer ones. windows: of tag, several records, doc_stride or half a window apart, in which each word counts once. Default: cut; for translate drop, for tag windows.", choices=("cut", "drop", "windows"))  # fmt: skip
    max_query_length: int | None = option(
        None,
        "Longer questions are cut. Default: 64, at most half of the record.",
        section="Questions, choices, lists",
        minimum=1,
    )
    doc_stride: int | None = option(None, "Tokens between the beginnings of two windows over a long text. Default: 128, half a window where windows are shorter.", minimum=1)  # fmt: skip
    num_choices: int = option(0, "Choices a record; questions with fewer get empty ones. 0: as many as the data has.")
    list_size: int = option(0, "Candidates a record. 0: as many as the longest list.")
    relevant_label: str | None = option(None, "For rank: the label of relevant candidates, where labels are names, such as entailment; all others are not relevant. Default: labels are numbers from 0.")  # fmt: skip
    long_lists: str = option("split", "Longer lists become several records, or keep the relevant candidates and some of the others.", choices=("split", "sample"))  # fmt: skip
    random_seed: int = option(12345, "Seed of the sample.")
    num_shards: int = option(0, "Number of files; 0 chooses by the size of the data.", section="Output and work")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RecordOptions):
    """The records, where they are written, and who does the work."""

    JOB: ClassVar = "data_pipelines.finetuning.command:create_finetuning_data"

    output_dir: str = option(REQUIRED, "New folder for the records and their manifest.", section="Output and work")
    num_workers: int = option(1, "Processes. The records do not depend on it.", minimum=1)
    task_index: str | None = option(None, "Of several machines or processes this one's number, from 0; merge joins what they have made.")  # fmt: skip
    num_tasks: int | None = option(
        None, "How many share the work; all with the same flags but for task_index.", minimum=1
    )
    resume: bool = option(False, "Go on with an unfinished output_dir; finished shards are kept.")
    overwrite: bool = option(False, "Replace the records in output_dir.")
