"""The choice that a network takes for right, with the probability of each."""

import dataclasses

import numpy as np

from data_pipelines.corpora.choices import ChoiceQuestion, read_choices
from data_pipelines.errors import DataError, UsageError
from xmodels.tasks.base import answer
from xmodels.tasks.choose.packing import FEWEST, pack_choices, read_questions


@dataclasses.dataclass(frozen=True)
class Choice:
    """The place of the likeliest choice, its text, and the probability of each choice, in their order."""

    choice: int
    text: str
    probabilities: list[float]


class Predictor(answer.Predictor):
    """Chooses among the choices of `ChoiceQuestion`s; they may have different numbers of choices."""

    unit, table = "question", ("question", "choice", "text", "probabilities")

    def example(self):
        return ChoiceQuestion("", "", ["", ""], None, "")

    def features(self, inputs):
        for asked in inputs:
            if len(asked.choices) < FEWEST:
                raise DataError(f"{asked.place}: {len(asked.choices)} choice(s); expected at least {FEWEST}.")
        return pack_choices(inputs, self.tokenizer, self.max_sequence_length, self.task.reading)

    def size(self, asked):
        return len(asked.context) + len(asked.question) + max(map(len, asked.choices))

    def predictions(self, inputs, features, outputs):
        rows = zip(inputs, np.array(outputs["probabilities"]), strict=True)
        return [self._choice(asked, row[: len(asked.choices)]) for asked, row in rows]

    def _choice(self, asked: ChoiceQuestion, probabilities: np.ndarray) -> Choice:
        place = int(probabilities.argmax())
        return Choice(place, asked.choices[place], probabilities.tolist())

    def read_labelled(self, path):
        return read_questions(path)

    def inputs(self, question):
        self.refuse(
            question, ("text_pair", "text_column", "text_pair_column"), "questions are read by their own layout"
        )
        if question.text is not None:
            raise UsageError(
                "--text: a question with choices does not fit in a flag. Give a file: --input_file=QUESTIONS, of JSON lines "
                'such as {"context": "…", "question": "…", "choices": ["…", "…"]}.'
            )
        path = question.input_file
        return answer.at_least_one(read_choices(path, with_answers=False), f"{path}: holds no questions.")

    def line(self, asked, prediction):
        probability = prediction.probabilities[prediction.choice]
        return f"{prediction.choice}\t{probability:.4f}\t{prediction.text}\t{asked.question}"

    def record(self, asked, prediction):
        return {**({"id": asked.id} if asked.id else {}), "question": asked.question, **dataclasses.asdict(prediction)}
