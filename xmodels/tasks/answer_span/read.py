"""Questions about texts: files of SQuAD 1.1, SQuAD 2.0 and CMRC 2018, or records made of them."""

import dataclasses
import os
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.squad import Question, read_squad
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.tasks.answer_span import answer_tokens, find_answer, fitting_windows, problem
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import max_text_tokens
from xmodels.tasks.answer_span.windows import (
    Settings,
    Window,
    check,
    pack_parts,
    pack_windows,
    places,
    windows_of,
)
from xmodels.tasks.base.answer import at_least_one
from xmodels.tasks.base.read import Data, Survey, drop_unusable, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_batches
from xmodels.tasks.base.texts import TextReader
from xmodels.training.watching.progress import print_status

TASK = "answer_span"  # of the records
SAMPLE = 1000  # questions of a survey whose texts are kept


class SpanSource(ArraySource):
    """Windows as arrays, with the questions that they belong to.

    Attributes:
        windows: of each question.
    """

    def __init__(self, arrays, name: str, questions: list[Question], windows: list[list[Window]]):
        super().__init__(arrays, name)
        self.questions, self.windows = questions, windows


def read_questions(path: str) -> list[Question]:
    """Returns all questions of a file. Raises a DataError where there is none, or the file is not laid out like SQuAD."""
    return list(each_question(path))


def each_question(path: str) -> Iterator[Question]:
    """Returns the same one by one."""
    return at_least_one(read_squad(path), f"{path}: holds no questions.")


def warn_problems(path: str, questions: list[Question]) -> None:
    """Says of questions to be scored where one has no answer and is not marked so, or one that its text does not hold."""
    problems = [(each, message) for each in questions if (message := problem(each, find_answer(each)[0]))]
    if problems:
        first, message = problems[0]
        print_status(
            f"Warning: {first.place}: {message}. {len(problems):,} of the {len(questions):,} questions of {path} are like this."
        )


class Reader(TextReader):
    """Files of questions; each question makes an example for each window of its text."""

    settings_class: ClassVar[type] = Settings
    reads_windows = True
    refused: ClassVar[dict] = dict.fromkeys(
        ("text_column", "text_pair_column", "label_column"), "questions are read by their own layout"
    )

    @property
    def settings(self) -> Settings:
        given = {name: getattr(self.options, name) for name in self.own_flags}
        given = {name: value for name, value in given.items() if value is not None}
        frame, options = self.reading.frame, self.options
        room = max_text_tokens(2, options.max_seq_length, frame)
        given |= fitting_windows(options.max_query_length, options.doc_stride, options.max_seq_length, room)
        return self.settings_class(context_first=frame.context_first, **given)

    def questions(self, path: str) -> list[Question]:
        """Returns the questions from which something can be learnt; says which ones are left out."""
        bad_rows = self.bad_rows()
        found = drop_unusable(read_questions(path), bad_rows, lambda each: problem(each, find_answer(each)[0]))
        print_left_out(path, bad_rows)
        if not found:
            raise DataError(f"{path}: holds no question from which something can be learnt.")
        return found

    def survey(self):
        path = self.training_files()
        train = self.questions(path)
        impossible = sum(question.is_impossible for question in train)
        summary = [f"{len(train):,} questions to train on, {impossible:,} of them without an answer"]
        for name, other in self.scored_files():
            questions = read_questions(other)
            warn_problems(other, questions)
            summary.append(f"{len(questions):,} for {name}")
        texts = [text for question in train[:SAMPLE] for text in (question.question, question.context)]
        return Survey(", ".join(summary), texts=texts)  # how many windows there are, only the tokens tell

    def scored_files(self):
        """Works as `evaluation_files`; records among them are refused, as they hold no text to compare answers with."""
        for name, other in self.evaluation_files():
            if os.path.isdir(other):
                flag = "eval_file" if name == "evaluation" else "test_file"
                raise UsageError(
                    f"--{flag}={other}: is a folder; answers are scored by their text, which records do not hold. Name the "
                    "file that they were made of (.json)."
                )
            yield name, other

    def survey_records(self, tokenizer):
        path, manifest = self.options.data_dir, Manifest.read(self.options.data_dir)
        check_recorded(path, manifest, TASK, tokenizer, None)
        list(self.scored_files())
        return Survey(f"{manifest.num_examples:,} windows", [], manifest.num_examples)

    def read(self, tokenizer):
        path, settings = self.training_files(), self.settings
        check(settings, self.options.max_seq_length, self.reading.frame)
        list(self.scored_files())  # raises what is wrong with them
        if os.path.isdir(path):
            source, impossible = self._recorded(path, tokenizer)
            summary = f"{source.num_examples:,} windows"
        else:
            train = self.questions(path)
            made = self._source(path, train, tokenizer)
            source, impossible = ArraySource(made.arrays, path), any(each.is_impossible for each in train)
            summary = f"{len(train):,} questions in {source.num_examples:,} windows"
        sets = self.evaluation_sets(
            source, tokenizer, lambda other: self._source(other, read_questions(other), tokenizer)
        )
        # As in Google's code, until an evaluation set chooses another one.
        self.chosen = dataclasses.replace(settings, null_score_diff_threshold=0.0 if impossible else None)
        return Data(source, sets, [], 2, summary)

    def task(self, config, data):
        return self.task_class(config, data.labels, reading=self.reading, settings=dataclasses.asdict(self.chosen))

    @tells_cuts("max_query_length")
    def _source(self, path: str, questions: list[Question], tokenizer) -> SpanSource:
        length, frame = self.options.max_seq_length, self.reading.frame
        windows = windows_of(questions, tokenizer, self.settings, length, frame)
        every = [each for made in windows for each in made]
        arrays = pack_windows(every, tokenizer, length, frame, self.settings.context_first)
        truth = [(find_answer(each)[0], made) for each, made in zip(questions, windows, strict=True)]
        answers = [None if each.is_impossible else span for each, (span, _) in zip(questions, truth, strict=True)]
        found = [place for span, made in zip(answers, windows, strict=True) for place in answer_in(made, span)]
        lengths = [(len(each.question_ids), len(each.context_ids)) for each in every]
        return SpanSource(arrays | self._positions(arrays, lengths, found), path, questions, windows)

    def _positions(self, arrays, lengths, found) -> dict[str, np.ndarray]:
        """Returns start_positions and end_positions int32 (N,), of places of windows, or None where a window lacks the answer.

        Args:
            lengths: tokens of each question and of the text beside it.
        """
        rows, first = [], self.settings.context_first
        padding = np.sum(~arrays["padding_mask"], axis=1)
        for (question, context), place, empty in zip(lengths, found, padding, strict=True):
            begin, null = places(self.reading.frame, question, context, int(empty), first)
            rows.append((null, null) if place is None else (begin + place[0], begin + place[1]))
        starts, ends = np.array(rows, np.int32).T
        return {"start_positions": starts.copy(), "end_positions": ends.copy()}

    def _recorded(self, path, tokenizer) -> tuple[ArraySource, bool]:
        """Records of `create_finetuning_data --task=answer_span`, and whether some windows lack an answer of theirs.

        Which questions have no answer at all is not told by records: windows without one are counted by their questions.
        """
        manifest = Manifest.read(path)
        check_recorded(path, manifest, TASK, tokenizer, None)
        firsts, seconds, found, answered, ids = [], [], [], set(), set()
        for parsed in recorded_batches(path, manifest):
            for row, (question, context) in enumerate(parsed["segment_lengths"]):
                tokens = parsed["token_ids"][row].tolist()
                firsts.append(tokens[:question])
                seconds.append(tokens[question : question + context])
                ids.add(identity := int(parsed["example_ids"][row]))
                span = None
                if parsed["has_answer"][row]:
                    answered.add(identity)
                    span = int(parsed["start_positions"][row] - question), int(parsed["end_positions"][row] - question)
                found.append(span)
        length, frame = self.options.max_seq_length, self.reading.frame
        longest, capacity = (
            max(len(a) + len(b) for a, b in zip(firsts, seconds, strict=True)),
            max_text_tokens(2, length, frame),
        )
        if longest > capacity:
            raise UsageError(
                f"--max_seq_length={length}: holds {capacity} tokens of a question and its text, but {path} has windows of "
                f"{longest}. Make the records with a smaller --max_seq_length, or give at least {length + longest - capacity} here."
            )
        arrays = pack_parts(firsts, seconds, tokenizer, length, frame, self.settings.context_first)
        lengths = [(len(a), len(b)) for a, b in zip(firsts, seconds, strict=True)]
        return ArraySource(arrays | self._positions(arrays, lengths, found), path), answered != ids


def answer_in(windows: list[Window], span: tuple[int, int] | None) -> list[tuple[int, int] | None]:
    """Returns the first and the last token of the answer within each window of a text; None where a window does not hold all of
    it.

    Args:
        span: its characters; None where there is no answer.
    """
    spans = np.zeros((windows[-1].first + len(windows[-1].spans), 2), np.int64)
    for window in windows:
        spans[window.first : window.first + len(window.spans)] = window.spans
    found = None if span is None else answer_tokens(spans, *span)
    if found is None:
        return [None] * len(windows)
    places = [(found[0] - window.first, found[1] - window.first) for window in windows]
    return [
        (a, b) if a >= 0 and b < len(window.spans) else None for (a, b), window in zip(places, windows, strict=True)
    ]
