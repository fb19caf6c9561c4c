"""Questions with choices as arrays for a network: a sequence for each choice."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.choices import ChoiceQuestion, read_choices
from data_pipelines.errors import DataError
from data_pipelines.finetuning.tasks.choose import Parts, fit_parts, parts_of
from data_pipelines.records.manifest import Manifest
from data_pipelines.text import cuts
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.base.records import check_recorded, recorded_batches

TASK = "choose"  # of the records
FEWEST = 2


def choice_source(path: str, tokenizer: Tokenizer, max_sequence_length: int, reading) -> ArraySource:
    """Returns all questions of a file, as `pack_choices` has them, with `labels` int32 (N,), the places of the right choices.

    Raises:
        DataError: a question without a right answer, or with fewer than two choices; names the place.
    """
    questions, labels = read_questions(path)
    arrays = pack_choices(questions, tokenizer, max_sequence_length, reading)
    return ArraySource({**arrays, "labels": np.array(labels, np.int32)}, path)


def read_questions(path: str) -> tuple[list[ChoiceQuestion], list[int]]:
    """Returns all questions of a file, and the places of the right choices.

    Raises:
        DataError: as `choice_source`.
    """
    questions = list(read_choices(path))
    if not questions:
        raise DataError(f"{path}: holds no questions.")
    return questions, [right_choice(asked) for asked in questions]


def right_choice(asked: ChoiceQuestion) -> int:
    """Returns the place of the right choice. Raises a DataError where there is none."""
    if len(asked.choices) < FEWEST:
        raise DataError(f"{asked.place}: {len(asked.choices)} choice(s); expected at least {FEWEST}.")
    if (answer := asked.answer_index()) is None:
        raise DataError(
            f"{asked.place}: the answer is no choice: {str(asked.answer)[:40]!r} for {len(asked.choices)} choices; expected a "
            "position from 0, a letter, or the text of one."
        )
    return answer


def recorded_source(folder: str, tokenizer: Tokenizer, max_sequence_length: int, reading) -> ArraySource:
    """Records of `create_finetuning_data --task=choose` as `choice_source` gives the file they were made of.

    Raises:
        DataError, UsageError: as `check_recorded`; or records of an older version, which do not part question and choice.
    """
    manifest = Manifest.read(folder)
    check_recorded(folder, manifest, TASK, tokenizer, None)
    if "part_lengths" not in manifest.features:
        raise DataError(
            f"{folder}: these records do not say where the question ends (`part_lengths`), as they were made by an older "
            "version. Make them again."
        )
    triples, weights, labels = [], [], []
    for parsed in recorded_batches(folder, manifest):
        there = parsed["choice_weights"] > 0  # (B, C)
        for ids, lengths in zip(parsed["token_ids"][there], parsed["part_lengths"][there], strict=True):
            first, second, end = np.cumsum(lengths)
            triples.append((ids[:first].tolist(), ids[first:second].tolist(), ids[second:end].tolist()))
        weights.append(parsed["choice_weights"])
        labels.append(parsed["labels"])
    arrays = pack_parts(triples, np.concatenate(weights), tokenizer, max_sequence_length, reading)
    return ArraySource({**arrays, "labels": np.concatenate(labels).astype(np.int32)}, folder)


def pack_choices(
    questions: list[ChoiceQuestion], tokenizer: Tokenizer, max_sequence_length: int, reading
) -> dict[str, np.ndarray]:
    """Returns each question with each of its choices, framed as the network reads pairs, as `pack_parts` has them."""
    count = max(len(asked.choices) for asked in questions)
    texts = zip(*(parts for asked in questions for parts in parts_of(asked)), strict=True)
    columns = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in texts]
    weights = np.array([[place < len(asked.choices) for place in range(count)] for asked in questions], np.float32)
    return pack_parts(list(zip(*columns, strict=True)), weights, tokenizer, max_sequence_length, reading)


def pack_parts(
    triples: Sequence[Parts], weights: np.ndarray, tokenizer: Tokenizer, max_sequence_length: int, reading
) -> dict[str, np.ndarray]:
    """Sequences of context, question and choice, as ids.

    Where `reading.asks_first`, the first text is context and question, and the second the choice (Radford et al., 2018,
    section 3.3), else the first is the context and the second question and choice.

    Args:
        triples: of each choice that there is, in order.
        weights: float32 (N, C): 1 for each choice that there is.

    Returns:
        token_ids and segment_ids int32 (N, C, L), padding_mask bool (N, C, L), choice_weights: `weights`.
    """
    capacity = max_text_tokens(2, max_sequence_length, reading.frame)
    pairs = [join_parts(*parts, capacity, reading.asks_first) for parts in triples]
    cuts.add(sum(map(len, parts)) - sum(map(len, pair)) for parts, pair in zip(triples, pairs, strict=True))
    with cuts.count_cuts():  # they fit by now
        flat = pack_ids(*map(list, zip(*pairs, strict=True)), tokenizer.vocabulary, max_sequence_length, reading.frame)
    return {**{name: spread_rows(values, weights > 0) for name, values in flat.items()}, "choice_weights": weights}


def join_parts(context: list[int], question: list[int], choice: list[int], capacity: int, asks_first: bool):
    """Returns the two texts of a sequence, as long as fits."""
    context, question, choice = fit_parts(context, question, choice, capacity)
    return (context + question, choice) if asks_first else (context, question + choice)


def spread_rows(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Returns rows (R, L) at the places of (N, C) where there is a choice; zeros elsewhere: (N, C, L)."""
    found = np.zeros((*there.shape, values.shape[1]), values.dtype)
    found[there] = values
    return found
