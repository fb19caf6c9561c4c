"""Questions about texts as windows that a network reads: arrays, and where the tokens stand in the text."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.corpora.squad import Question
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.task import WINDOW_NUMBERS
from data_pipelines.finetuning.tasks.answer_span import check_windows
from data_pipelines.pretraining.stages.windows import most_context, windows
from data_pipelines.schema import Finite, Positive
from data_pipelines.text import cuts
from data_pipelines.text.frames import Frame
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import CLS


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run knows of its windows and answers; the defaults are those of Google's run_squad.py.

    Attributes:
        doc_stride: tokens from the beginning of one window to that of the next.
        max_query_length: tokens of a question; longer ones lose their end.
        n_best_size: likeliest beginnings, ends and answers that are looked at.
        max_answer_length: tokens of an answer.
        null_score_diff_threshold: there is no answer where the score of having none is higher than that of the best answer
            by more than this; None where every question has one.
        context_first: whether the text stands before the question, as in the frame of the network.
    """

    null_alone: ClassVar[bool] = False  # whether the score of having no answer is compared with none of an answer

    doc_stride: Positive = WINDOW_NUMBERS["doc_stride"]
    max_query_length: Positive = WINDOW_NUMBERS["max_query_length"]
    n_best_size: Positive = 20
    max_answer_length: Positive = 30
    null_score_diff_threshold: Finite | None = None
    context_first: bool = False


@dataclasses.dataclass(frozen=True)
class Window:
    """A question with some tokens of its text.

    Attributes:
        spans: int (T, 2), the characters of each token of the text: first, and one past the last.
        most_context: bool (T,), True where no other window shows more text around the token (Google's max-context).
        first: the place of its first token among those of the text.
    """

    question_ids: list[int]
    context_ids: list[int]
    spans: np.ndarray
    most_context: np.ndarray
    first: int = 0


def check(settings: Settings, max_sequence_length: int, frame: Frame) -> None:
    """Raises a UsageError where the windows of a long question would be empty or lie apart, or no token could stand for having no
    answer."""
    if not frame.num_special(2):
        raise UsageError(
            "--init_checkpoint: this network reads texts without any special token, so none could stand for having no answer. Take "
            "one that has some, such as BERT, GPT, XLNet, BART or T5."
        )
    room = max_text_tokens(2, max_sequence_length, frame)
    check_windows(settings.max_query_length, settings.doc_stride, max_sequence_length, room)


def windows_of(
    questions: Sequence[Question], tokenizer: Tokenizer, settings: Settings, max_sequence_length: int, frame: Frame
) -> list[list[Window]]:
    """Returns the windows of each question, at least one."""
    asked = tokenizer.encode_batch([each.question for each in questions])
    contexts = tokenizer.encode_batch([each.context for each in questions])
    found = []
    for question, context in zip(asked, contexts, strict=True):
        ids = list(question.ids[: settings.max_query_length])
        cuts.add([len(question.ids) - len(ids)])
        spans = np.array(context.spans, np.int64).reshape(-1, 2)
        places = windows(len(spans), max_text_tokens(2, max_sequence_length, frame) - len(ids), settings.doc_stride)
        most = most_context(places, len(spans))
        found.append(
            [
                Window(ids, list(context.ids[a : a + count]), spans[a : a + count], shown, a)
                for (a, count), shown in zip(places, most, strict=True)
            ]
        )
    return found


def pack_windows(
    rows: Sequence[Window], tokenizer: Tokenizer, max_sequence_length: int, frame: Frame, context_first: bool = False
) -> dict[str, np.ndarray]:
    """Returns token_ids and segment_ids int32, padding_mask bool, all (N, L)."""
    questions, contexts = [row.question_ids for row in rows], [row.context_ids for row in rows]
    return pack_parts(questions, contexts, tokenizer, max_sequence_length, frame, context_first)


def pack_parts(questions, contexts, tokenizer, max_sequence_length, frame, context_first) -> dict[str, np.ndarray]:
    """Returns the same of lists of ids."""
    texts = (contexts, questions) if context_first else (questions, contexts)
    with cuts.count_cuts():  # windows fit; a question may have lost its end before
        return pack_ids(*texts, tokenizer.vocabulary, max_sequence_length, frame)


def places(
    frame: Frame, question_length: int, context_length: int, padding: int, context_first: bool = False
) -> tuple[int, int]:
    """Returns the place of the first token of the text, and that of the token that stands for having no answer.

    That is `[CLS]`, or the token by which a network from left to right answers, as it has seen all; else the first special one, or
    the last one where the frame says so.

    Args:
        padding: how many columns of the row are padding.
        context_first: whether the text stands before the question.
    """
    lengths = (context_length, question_length) if context_first else (question_length, context_length)
    place = padding if frame.pads_left else 0
    parts = frame.of_texts(2)
    roles = [part.role for part in parts if part.text is None]
    role = frame.once or (CLS if CLS in roles else roles[0])
    context = null = None
    for part in parts:
        if part.text == (0 if context_first else 1):
            context = place
        if part.role == role and (null is None or frame.whole_is_last):
            null = place
        place += 1 if part.text is None else lengths[part.text]
    return context, null
