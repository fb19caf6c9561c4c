"""Labelled files: readable, with the same labels, and of text that the vocabulary knows."""

from data_pipelines.finetuning.row_checks import unknown_warning
from data_pipelines.text.cuts import MUCH
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels.doctor.case import FINETUNE, Case
from xmodels.training.watching.progress import print_status


def rows(case: Case) -> str | None:
    """Returns the files of training, evaluation and test, as the task reads them."""
    if case.job != FINETUNE or not case.flags.train_file:
        return None
    from xmodels.jobs.finetune.start import reader_of

    found = reader_of(case.flags).survey()
    case.labels, case.num_rows, case.texts = found.labels, found.num_rows, found.texts
    return found.summary


def recorded(case: Case) -> str | None:
    """Records of labelled data against the checkpoint's vocabulary and each other."""
    from xmodels.jobs.finetune.start import reader_of

    if case.job != FINETUNE or not case.flags.data_dir or case.manifest is None or case.tokenizer is None:
        return None
    found = reader_of(case.flags).survey_records(case.tokenizer)
    case.labels, case.num_rows = found.labels, found.num_rows
    return found.summary


def known_text(case: Case) -> str | None:
    """Returns how much of the text the vocabulary of the checkpoint knows, and how much is longer than --max_seq_length."""
    from xmodels.jobs.finetune.start import reader_of

    if not case.texts or case.tokenizer is None:
        return None
    pieces = [found.ids for found in case.tokenizer.encode_batch(case.texts)]
    unknown_id, tokens = case.tokenizer.vocabulary.roles.get(UNKNOWN, -1), sum(map(len, pieces))
    unknown = sum(ids.count(unknown_id) for ids in pieces)
    warning = unknown_warning(case.flags.train_file, unknown, tokens, case.tokenizer.do_lower_case)
    if warning and not case.tokenizer.is_open:  # of open ones, unknown words are read by their characters
        print_status(warning)
    longest = case.flags.max_seq_length
    lost = [max(0, len(ids) + 2 - longest) for ids in pieces]
    long = sum(map(bool, lost)) / len(pieces)
    windows = reader_of(case.flags).reads_windows
    if long > MUCH and not windows:
        print_status(
            f"Warning: --max_seq_length={longest}: {long:.0%} of the texts of {case.flags.train_file} are longer and would be cut, by "
            f"{sum(lost) / tokens:.0%} of all tokens. Raise it as far as the network has positions."
        )
    then = f"longer than {longest} tokens, which are read in windows" if windows else f"cut at {longest}"
    return f"{unknown / max(1, tokens):.1%} of the tokens unknown, {long:.0%} of the texts {then}"
