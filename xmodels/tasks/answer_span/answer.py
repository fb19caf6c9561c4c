"""The answers to questions about texts, as stretches of these, with their probabilities."""

from collections.abc import Callable, Sequence

import numpy as np

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.labelled import as_text, first_of, name_of, read_json_lines
from data_pipelines.corpora.squad import Question
from data_pipelines.errors import UsageError
from xmodels.tasks.answer_span.read import each_question, read_questions
from xmodels.tasks.answer_span.spans import Candidates, Found, find, of_row
from xmodels.tasks.answer_span.windows import Settings, Window, pack_windows, windows_of
from xmodels.tasks.base import answer

POOL = 64  # questions whose windows are in memory at once
SHOWN = 5  # answers, the likeliest ones


class Predictor(answer.Predictor):
    """Answers `Question`s, whose own answers are not read."""

    unit, settings_class = "question", Settings
    table = ("id", "question", "answer", "start", "end", "score")
    of_row = staticmethod(of_row)

    def __init__(self, run, columns=None):
        self.settings = run.settings(self.settings_class)
        super().__init__(run, columns)

    def example(self):
        return Window([], [], np.zeros((0, 2), np.int64), np.zeros(0, bool))

    def features(self, inputs):
        return pack_windows(
            inputs, self.tokenizer, self.max_sequence_length, self.task.reading.frame, self.settings.context_first
        )

    def size(self, asked):
        return len(asked.question_ids) + len(asked.context_ids)

    def predict(
        self, inputs: Sequence[Question], batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> list[Found]:
        """Answers questions; each of their windows is a row of a batch."""
        found, frame = [], self.task.reading.frame
        for first in range(0, len(inputs), POOL):
            asked = inputs[first : first + POOL]
            windows = windows_of(asked, self.tokenizer, self.settings, self.max_sequence_length, frame)
            answered = iter(super().predict([each for made in windows for each in made], batch_size))
            for question, made in zip(asked, windows, strict=True):
                found.append(find(question.context, [next(answered) for _ in made], self.settings))
            progress(len(asked))
        return found

    def predictions(self, inputs, features, outputs) -> list[Candidates]:
        frame, real = self.task.reading.frame, features["padding_mask"]
        return [
            self.of_row({name: x[row] for name, x in outputs.items()}, real[row], window, frame, self.settings)
            for row, window in enumerate(inputs)
        ]

    def read_labelled(self, path):
        questions = read_questions(path)
        return questions, questions

    def inputs(self, question):
        self.refuse(question, ("text_column", "text_pair_column"), "questions are read by their own layout")
        if question.text is not None:
            if not question.text_pair:
                raise UsageError("--text: is the text that holds the answer; give the question with --text_pair.")
            return [Question("", question.text_pair, question.text, [], False, "--text")]
        self.refuse(question, ("text_pair",), "stands in the file, beside each text")
        if kind_of(question.input_file) == ".jsonl":
            return read_lines(question.input_file)
        return each_question(question.input_file)

    def describe_prediction(self, asked, prediction):
        best = prediction.answer
        yield f"answer: {best.text}" if best.text else "no answer"
        for each in prediction.n_best[:SHOWN]:
            yield f"  {each.score:.4f}  {f'{each.start}-{each.end}  {each.text}' if each.text else '(no answer)'}"

    def line(self, asked, prediction):
        best = prediction.answer
        return f"{best.text}\t{best.score:.4f}\t{asked.question}"

    def record(self, asked, prediction):
        best = prediction.answer
        difference = prediction.null_score_diff
        return {
            **({"id": asked.id} if asked.id else {}), "question": asked.question, "answer": best.text, "start": best.start,
            "end": best.end, "score": best.score, "null_score_diff": difference if np.isfinite(difference) else None,
            "n_best": [{"answer": each.text, "start": each.start, "end": each.end, "score": each.score} for each in prediction.n_best],
        }  # fmt: skip


def read_lines(path: str):
    """Questions of JSON lines with `question` and `context`, perhaps `id`. Raises a DataError that names the line."""
    for place, value in answer.at_least_one(read_json_lines(path), f"{path}: holds no questions."):
        question, context = (
            as_text(first_of(value, (name,), place), f"{place}, {name}") for name in ("question", "context")
        )
        yield Question(name_of(value) or "", question, context, [], False, place)
