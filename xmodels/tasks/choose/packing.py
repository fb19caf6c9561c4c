"""Questions with choices as arrays for a network: a sequence for each choice."""

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.choices import BLANK, ChoiceQuestion, read_choices
from data_pipelines.errors import DataError
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.joining import gap
from data_pipelines.text.tokenizer import Tokenizer

FEWEST = 2


def choice_source(path: str, tokenizer: Tokenizer, max_sequence_length: int, reading) -> ArraySource:
    """All questions of a file, as `pack_choices` has them, with `labels` int32 (N,), the places of the right choices.

    Raises:
        DataError: a question without a right answer, or with fewer than two choices; names the place.
    """
    questions, labels = read_questions(path)
    arrays = pack_choices(questions, tokenizer, max_sequence_length, reading)
    return ArraySource({**arrays, "labels": np.array(labels, np.int32)}, path)


def read_questions(path: str) -> tuple[list[ChoiceQuestion], list[int]]:
    """All questions of a file, and the places of the right choices.

    Raises:
        DataError: as `choice_source`.
    """
    questions = list(read_choices(path))
    if not questions:
        raise DataError(f"{path}: holds no questions.")
    return questions, [right_choice(asked) for asked in questions]


def right_choice(asked: ChoiceQuestion) -> int:
    """The place of the right choice. Raises a DataError where there is none."""
    if len(asked.choices) < FEWEST:
        raise DataError(f"{asked.place}: {len(asked.choices)} choice(s); expected at least {FEWEST}.")
    if (answer := asked.answer_index()) is None:
        raise DataError(
            f"{asked.place}: the answer is no choice: {str(asked.answer)[:40]!r} for {len(asked.choices)} choices; expected a "
            "position from 0, a letter, or the text of one."
        )
    return answer


def pack_choices(
    questions: list[ChoiceQuestion], tokenizer: Tokenizer, max_sequence_length: int, reading
) -> dict[str, np.ndarray]:
    """Each question with each of its choices, framed as the network reads pairs.

    Where `reading.asks_first`, the first text is context and question, and the second the choice (Radford et al., 2018,
    section 3.3), else the first is the context and the second question and choice. Of what is too long the context loses
    its end.

    Returns:
        token_ids and segment_ids int32 (N, C, L), padding_mask bool (N, C, L), choice_weights float32 (N, C): 1 for each
        choice that there is; C is the largest number of choices.
    """
    count = max(len(asked.choices) for asked in questions)
    triples = [parts for asked in questions for parts in parts_of(asked)]
    columns = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in zip(*triples, strict=True)]
    capacity = max_text_tokens(2, max_sequence_length, reading.frame)
    pairs = [joined(*ids, capacity, reading.asks_first) for ids in zip(*columns, strict=True)]
    flat = pack_ids(*map(list, zip(*pairs, strict=True)), tokenizer.vocabulary, max_sequence_length, reading.frame)
    weights = np.array([[place < len(asked.choices) for place in range(count)] for asked in questions], np.float32)
    arrays = {name: spread(values, weights > 0) for name, values in flat.items()}
    return {**arrays, "choice_weights": weights}


def parts_of(asked: ChoiceQuestion):
    """Context, question and choice of each choice, each with the blank before it where the language has one.

    In a cloze the choice fills the blank of the question.
    """
    for choice in asked.choices:
        question = asked.question.replace(BLANK, choice)
        after = gap(asked.context, question) if asked.context else ""
        yield asked.context, after + question, gap(question, choice) + choice


def joined(context: list[int], question: list[int], choice: list[int], capacity: int, asks_first: bool):
    """The two texts of a sequence; the context gives way to question and choice."""
    context = context[: max(0, capacity - len(question) - len(choice))]
    return (context + question, choice) if asks_first else (context, question + choice)


def spread(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Rows (R, L) at the places of (N, C) where there is a choice; zeros elsewhere: (N, C, L)."""
    found = np.zeros((*there.shape, values.shape[1]), values.dtype)
    found[there] = values
    return found
