r"""Turns labelled data into sharded records for fine-tuning. Checks every example, can use several processes, and
resumes after an interruption.

    xmodels create_finetuning_data --task=answer_span --input_file=train-v2.0.json --vocab_file=vocab.txt \
        --max_seq_length=384 --output_dir=records --num_workers=8
"""

import dataclasses
from typing import ClassVar

from data_pipelines.finetuning.listing import TASKS, meaning
from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import delimiter_option, encoding_option
from data_pipelines.options.runner import beam_options_option, dask_scheduler_option, runner_option
from data_pipelines.text.tokenizer_settings import TOKENIZERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """The options that determine the records."""

    INHERITED_FIRST: ClassVar = True

    task: str = option(REQUIRED, "Kind of labelled data:", section="Input", choices=TASKS, values={name: meaning(name) for name in TASKS})  # fmt: skip
    input_file: str = option(REQUIRED, "Input files: comma-separated names or globs, also .gz. Tables (.tsv, .csv, .jsonl) for classify, multi_label, regress, rank, siamese, translate; CoNLL or .conllu for tag; SQuAD or CMRC JSON for answer_span; JSON lines, C3, DREAM or CSV for choose; bAbI's files or its folder for answer_story.")  # fmt: skip
    target_file: str | None = option(None, "For translate: file with the translations, line by line. input_file is then plain text too.")  # fmt: skip
    encoding: str = encoding_option()
    delimiter: str | None = delimiter_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. For tag: the position of the words.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, candidate or translation.")
    negative_column: str | None = option(None, "For siamese: column of a third text that does not match the first.")
    label_column: str | None = option(None, "Column of the label, score or tag. Default for tag: the last column.")
    tag_scheme: str = option("bio", "bio: tags of spans; IOB1, BIOES and BILOU are converted to BIO. none: tags are kept as they are, such as parts of speech.", choices=("bio", "none"))  # fmt: skip
    bad_tags: str = option("repair", "What to do with impossible tags, such as I-X after O in BIO. repair: read them as conlleval does, and count them. refuse: treat them as bad rows (see on_bad_row).", choices=("repair", "refuse"))  # fmt: skip
    labels: str | None = option(None, "Comma-separated label names in the order of their ids. Default: the labels in the data, sorted.", section="Labels")  # fmt: skip
    label_separator: str | None = option(None, "For multi_label: separator between the labels of a text. Default: |.")
    labels_from: str | None = option(None, "Folder of records whose labels and ids are reused. Give the training records here when you make dev and test records.")  # fmt: skip
    on_bad_row: str = option("fail", "What to do with rows, questions and lists that cannot be used (unknown or empty labels, unclosed quotes, missing columns, answers that do not occur in the text, duplicate ids, empty texts). fail: stop and name them. skip: leave them out, count them and name the first ones.", choices=("fail", "skip"))  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary: a file, or a folder that contains one. Optional for answer_story only, which by default builds it from its words.", section="Tokens")  # fmt: skip
    tokenizer: str = option("auto", "Kind of vocabulary; auto detects it from the file.", choices=("auto", *TOKENIZERS))
    do_lower_case: bool | None = option(None, "Lower-case the text and strip accents. Default: as the vocabulary's settings say, else what is usual for its kind.")  # fmt: skip
    max_seq_length: int = option(128, "Maximum length of an example in tokens, including special tokens.", minimum=1)
    on_long_text: str | None = option(None, "What to do with longer texts. cut: truncate them. drop: leave them out. windows (tag only): several records, doc_stride or half a window apart, in which each word counts once. Default: cut; for translate drop, for tag windows.", choices=("cut", "drop", "windows"))  # fmt: skip
    max_query_length: int | None = option(None, "Maximum length of a question in tokens; longer ones are truncated. Default: 64, at most half of max_seq_length.", section="Questions, choices, lists", minimum=1)  # fmt: skip
    doc_stride: int | None = option(None, "Tokens between the starts of two consecutive windows over a long text. Default: 128, or half a window where windows are shorter.", minimum=1)  # fmt: skip
    num_choices: int = option(0, "Choices per record; questions with fewer are padded with empty ones. 0: the most that a question in the data has.")  # fmt: skip
    list_size: int = option(0, "Candidates per record. 0: as many as the longest list has.")
    relevant_label: str | None = option(None, "For rank, where labels are names: the label of relevant candidates, such as entailment. All other candidates are not relevant. Default: labels are numbers from 0.")  # fmt: skip
    long_lists: str = option("split", "What to do with longer lists. split: make several records. sample: make one record with the relevant candidates and a sample of the others.", choices=("split", "sample"))  # fmt: skip
    random_seed: int = option(12345, "Random seed of this sample.")
    num_shards: int = option(0, "Number of record files; 0 chooses it by the size of the data.", section="Output and work")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RecordOptions):
    """The records, where they are written, and which processes make them."""

    SECTION: ClassVar = "Text and labelled data"
    JOB: ClassVar = "data_pipelines.finetuning.command:create_finetuning_data"

    output_dir: str = option(REQUIRED, "New folder for the records and their manifest.", section="Output and work")
    num_workers: int = option(1, "Number of processes. The records do not depend on it.", minimum=1)
    task_index: str | None = option(None, "Number of this machine or process, from 0, where several share the work. merge: join what they have made.")  # fmt: skip
    num_tasks: int | None = option(None, "Number of machines or processes that share the work. Give all of them the same flags except task_index.", minimum=1)  # fmt: skip
    resume: bool = option(False, "Continue an unfinished output_dir; finished shards are kept.")
    overwrite: bool = option(False, "Replace the records in output_dir.")
    runner: str = runner_option()
    dask_scheduler: str | None = dask_scheduler_option()
    beam_options: str = beam_options_option()
