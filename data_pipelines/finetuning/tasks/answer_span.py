"""Questions answered by a span of a text.

Questions whose answer is a span of a text (Devlin et al., 2018, sections 4.2 and 4.3).

A text that is too long is read in windows, each a record of its own; the answer is given as tokens.
"""

import re
from collections.abc import Iterator

import numpy as np

from data_pipelines.corpora.labelled import RawExample
from data_pipelines.corpora.squad import Question, read_squad
from data_pipelines.errors import UsageError
from data_pipelines.features import Feature
from data_pipelines.finetuning.task import WINDOW_NUMBERS, Row, Task, count_tokens
from data_pipelines.pretraining.stages.windows import most_context, windows
from data_pipelines.text.framing import max_text_tokens


def find_answer(question: Question) -> tuple[tuple[int, int] | None, bool]:
    """Returns the characters (first, end) of the first answer that stands in the context, and whether it had to be moved.

    An answer that does not stand where the file says is looked for elsewhere, and the nearest place is taken.
    """
    context = question.context
    for text, start in question.answers:
        stripped = text.strip()
        if not stripped:
            continue
        lead = len(text) - len(text.lstrip())
        if start is not None and context[start + lead : start + lead + len(stripped)] == stripped and start >= 0:
            return (start + lead, start + lead + len(stripped)), False
    for text, start in question.answers:
        stripped = text.strip()
        pattern = f"(?={re.escape(stripped)})"  # looks ahead, so that places may overlap
        if places := [found.start() for found in re.finditer(pattern, context)] if stripped else []:
            first = min(places, key=lambda place: abs(place - (start or 0)))
            return (first, first + len(stripped)), start is not None
    return None, False


def answer_tokens(spans: np.ndarray, first: int, end: int) -> tuple[int, int] | None:
    """Returns the first and the last token that share characters with the span [first, end); None if none does.

    Args:
        spans: (L, 2), the characters of each token.
    """
    shared = np.flatnonzero((spans[:, 1] > first) & (spans[:, 0] < end) & (spans[:, 1] > spans[:, 0]))
    return (int(shared[0]), int(shared[-1])) if len(shared) else None


def fitting_windows(
    max_query_length: int | None, doc_stride: int | None, max_seq_length: int, room: int
) -> dict[str, int]:
    """Returns both numbers, with those that are None so that they fit: the usual ones, which are for sequences of 384 tokens,
    and in shorter ones half of the sequence for the question, and half a window between windows.

    Args:
        room: tokens of question and text together.
    """
    question = max_query_length or min(WINDOW_NUMBERS["max_query_length"], max(1, max_seq_length // 2))
    usual, window = WINDOW_NUMBERS["doc_stride"], room - question
    stride = doc_stride or (usual if usual <= window else max(1, window // 2))
    return {"max_query_length": question, "doc_stride": stride}


def check_windows(max_query_length: int, doc_stride: int, max_seq_length: int, room: int) -> None:
    """Raises a UsageError where the windows of a long question would be empty or lie apart; `room` as of `fitting_windows`."""
    window = room - max_query_length
    if window < 1:
        raise UsageError(
            f"--max_query_length={max_query_length}: leaves no room for the text in --max_seq_length={max_seq_length}. Raise "
            "--max_seq_length (384 is usual) or lower the other."
        )
    if doc_stride > window:
        raise UsageError(
            f"--doc_stride={doc_stride}: windows of {window} tokens (--max_seq_length less the question and special tokens) would "
            "lie apart, and answers between them be lost. Lower it (half a window is usual), or raise --max_seq_length."
        )


class AnswerSpan(Task):
    """SQuAD and CMRC files; each question makes one record a window."""

    name = "answer_span"
    has_windows = True

    def check(self):
        length = self.settings.max_seq_length
        check_windows(self.settings.max_query_length, self.settings.doc_stride, length, max_text_tokens(2, length))

    @classmethod
    def window_numbers(cls, settings):
        given, length = (settings.max_query_length, settings.doc_stride), settings.max_seq_length
        return fitting_windows(*given, length, max_text_tokens(2, length))

    def examples(self, path):
        for question in read_squad(path):
            span, moved = find_answer(question)
            value = {
                "question": question.question, "context": question.context, "id": question.id, "moved": moved,
                "answer": None if question.is_impossible else span,
            }  # fmt: skip
            yield RawExample(question.place, value, question.id, problem(question, span))

    def features(self, size):
        return {
            "token_ids": Feature((None,)),
            "segment_lengths": Feature((2,)),
            "start_positions": Feature(()),
            "end_positions": Feature(()),
            "has_answer": Feature(()),
            "char_starts": Feature((None,)),
            "char_ends": Feature((None,)),
            "most_context": Feature((None,)),
            "example_ids": Feature(()),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        questions = tokenizer.encode_batch([value["question"] for value in values])
        contexts = tokenizer.encode_batch([value["context"] for value in values])
        for index, value, question, context in zip(indices, values, questions, contexts, strict=True):
            counts["questions"] += 1
            counts["moved_answers"] += value["moved"]
            counts["cut_questions"] += len(question.ids) > self.settings.max_query_length
            ids = question.ids[: self.settings.max_query_length]
            made = list(self._windows(ids, context, value, counts))
            counts["long_contexts"] += len(made) > 1
            for row in made:
                count_tokens(row["token_ids"], tokenizer, counts)
                counts["example_tokens"] += len(row["token_ids"]) + 3
                yield {**row, "example_ids": [index]}

    def _windows(self, question: list[int], context, value, counts) -> Iterator[Row]:
        spans = np.array(context.spans, np.int64).reshape(-1, 2)
        found = None
        if value["answer"] is None:
            counts["without_answer"] += 1
        else:
            first, end = value["answer"]
            found = answer_tokens(spans, first, end)
            if found is None:
                counts["answers_without_tokens"] += 1
            elif (spans[found[0], 0], spans[found[1], 1]) != (first, end):
                counts["answers_inside_tokens"] += 1
        capacity = max_text_tokens(2, self.settings.max_seq_length) - len(question)
        places = windows(len(spans), capacity, self.settings.doc_stride)
        seen = False
        for (start, length), most in zip(places, most_context(places, len(spans)), strict=True):
            holds = found is not None and start <= found[0] and found[1] < start + length
            seen |= holds
            counts["windows_with_answer"] += holds
            first, last = (place - start + len(question) for place in found) if holds else (0, 0)
            nothing = [0] * len(question)
            yield {
                "token_ids": question + context.ids[start : start + length],
                "segment_lengths": [len(question), length],
                "start_positions": [first],
                "end_positions": [last],
                "has_answer": [int(holds)],
                "char_starts": [*nothing, *spans[start : start + length, 0]],
                "char_ends": [*nothing, *spans[start : start + length, 1]],
                "most_context": [*nothing, *most],
            }
        counts["answers_in_no_window"] += found is not None and not seen

    @classmethod
    def describe_length(cls, settings, number, share):
        return [
            f"  contexts in several windows {share('long_contexts', 'questions')} · questions cut at "
            f"{settings.max_query_length} {share('cut_questions', 'questions')}"
        ]

    @classmethod
    def describe(cls, settings, number, share):
        return [
            f"  questions {number('questions'):,} · without an answer {share('without_answer', 'questions')} · windows with "
            f"the answer {share('windows_with_answer', 'examples')}",
            f"  answers that begin or end inside a token {share('answers_inside_tokens', 'questions')} · found elsewhere than "
            f"the file says {share('moved_answers', 'questions')} · in no window {share('answers_in_no_window', 'questions')}"
            f" · without tokens {share('answers_without_tokens', 'questions')}",
        ]

    @classmethod
    def render(cls, record, tokens, labels):
        lengths = record["segment_lengths"]
        shown = [tokens[i] for i in record["token_ids"][: lengths.sum()]]
        if record["has_answer"]:
            first, last = record["start_positions"], record["end_positions"]
            shown[first], shown[last] = f"【{shown[first]}", f"{shown[last] if last > first else '【' + shown[last]}】"
        return " ".join([*shown[: lengths[0]], "|", *shown[lengths[0] :]])


def problem(question: Question, span) -> str | None:
    """Returns why nothing can be learnt from a question, and what to do about it.

    Args:
        span: what `find_answer` says of it.
    """
    if not question.question.strip() or not question.context.strip():
        return "empty text: write the question and the context, or take the question out"
    if question.is_impossible:
        return None
    if not question.answers:
        return "no answer: give `answers`, or mark the question with `is_impossible`: true"
    if span is None:
        text, start = question.answers[0]
        where = "" if start is None else f" (at character {start} stands {question.context[start:][:20]!r})"
        return f"answer not in the context: {text[:40]!r}{where}. Correct text and answer_start"
    return None
