"""Labelled files: readable, with the same labels, and of text that the vocabulary knows."""

from data_pipelines.corpora.choices import read_choices
from data_pipelines.corpora.tables import Columns, read_table
from data_pipelines.finetuning.row_checks import (
    check_labels,
    check_texts,
    label_ids,
    label_names,
    shared_warning,
    unknown_warning,
)
from data_pipelines.finetuning.stories import answer_ids, answers_of
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels.doctor.case import FINETUNE, Case
from xmodels.doctor.records import is_labelled
from xmodels.training.watching.progress import say

SAMPLE = 1000  # rows whose tokens are counted


def rows(case: Case) -> str | None:
    """The tables of training, evaluation and test."""
    flags = case.flags
    if case.job != FINETUNE or not flags.train_file:
        return None
    if flags.task == "answer_story":
        return _stories(case)
    if flags.task == "choose":
        return _choices(case)
    columns = Columns(flags.text_column, flags.text_pair_column, flags.label_column)
    train = read_table(flags.train_file, columns)
    labels = label_names(train)
    check_labels(flags.train_file, labels, len(train), flags.label_column)
    told = [f"{len(train):,} rows to train on, {len(labels)} labels"]
    for name, path in (("to evaluate on", flags.eval_file), ("to test on", flags.test_file)):
        if not path or is_labelled(path):
            continue
        held = read_table(path, columns)
        label_ids(path, held, labels)
        check_texts(path, len(held[0].texts), flags.train_file, len(train[0].texts))
        if warning := shared_warning(path, [row.texts for row in held], flags.train_file, [row.texts for row in train]):
            say(warning)
        told.append(f"{len(held):,} {name}")
    case.labels, case.num_rows, case.texts = labels, len(train), [text for row in train[:SAMPLE] for text in row.texts]
    return ", ".join(told)


def _stories(case: Case) -> str:
    """Files of bAbI: readable, with no answer that training lacks."""
    from xmodels.jobs.finetuning import finetuning

    kind = finetuning(case.flags)
    kind.begin()  # checks the flags
    train, held = kind.questions()
    case.labels, case.num_rows = answers_of(train), len(train)
    for questions in held.values():
        answer_ids(questions, case.labels)
    told = [f"{len(train):,} questions to train on, {len(case.labels)} answers"]
    return ", ".join(told + [f"{len(questions):,} for {name}" for name, questions in held.items()])


def _choices(case: Case) -> str:
    """Questions with choices, of which one is right."""
    from xmodels.jobs.choices import right_choice

    told = []
    for name, path in (
        ("train", case.flags.train_file),
        ("evaluate", case.flags.eval_file),
        ("test", case.flags.test_file),
    ):
        if path:
            told.append(f"{len([right_choice(asked) for asked in read_choices(path)]):,} questions to {name} on")
    return ", ".join(told)


def recorded(case: Case) -> str | None:
    """Records of labelled data against the checkpoint's vocabulary and each other."""
    from xmodels.jobs.labelled import check_recorded

    flags = case.flags
    if case.job != FINETUNE or not flags.data_dir or case.manifest is None or case.tokenizer is None:
        return None
    case.labels = check_recorded(flags.data_dir, case.manifest, case.tokenizer, None)
    case.num_rows = case.manifest.num_examples
    check_labels(flags.data_dir, case.labels, case.num_rows)
    for path in (flags.eval_file, flags.test_file):
        if path and is_labelled(path):
            check_recorded(path, Manifest.read(path), case.tokenizer, case.labels)
    return f"{case.num_rows:,} examples, {len(case.labels)} labels"


def known_text(case: Case) -> str | None:
    """How much of the text the vocabulary of the checkpoint knows, and how much --max_seq_length cuts."""
    if not case.texts or case.tokenizer is None:
        return None
    pieces = [found.ids for found in case.tokenizer.encode_batch(case.texts)]
    unknown_id, tokens = case.tokenizer.vocabulary.roles.get(UNKNOWN, -1), sum(map(len, pieces))
    unknown = sum(ids.count(unknown_id) for ids in pieces)
    if warning := unknown_warning(case.flags.train_file, unknown, tokens, case.tokenizer.do_lower_case):
        say(warning)
    longest = case.flags.max_seq_length
    cut = sum(len(ids) + 2 > longest for ids in pieces) / len(pieces)
    return f"{unknown / max(1, tokens):.1%} of the tokens unknown, {cut:.0%} of the texts cut at {longest}"
