"""Answers to questions about stories, with their probabilities and the steps that the network took."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.unanswered_stories import read_stories, split_story
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.stories import StoryEncoder
from xmodels.tasks.base import answer
from xmodels.tasks.base.forms import PROBABILITIES, likeliest

Story = tuple[Sequence[str], str]  # sentences and a question


@dataclasses.dataclass(frozen=True)
class StoryAnswer:
    """An answer, the probability of each answer, and the steps that the sentences and the question took.

    `steps` is float32 (S,), of the places of the story; None of networks that do not decide about their steps.
    """

    answer: str
    probabilities: dict[str, float]
    steps: np.ndarray | None


class Predictor(answer.Predictor):
    """Answers `Story`s."""

    unit, table = "question", ("question", "answer", PROBABILITIES)

    def prepare(self):
        words = self.backbone.config.max_sentence_length
        self.encoder = StoryEncoder(self.tokenizer, self.max_sequence_length - 1, words)

    def example(self):
        word = next(token for index, token in enumerate(self.tokenizer.vocabulary.tokens) if index > 4)
        return (word,), word

    def features(self, inputs):
        return self.encoder.arrays(inputs)

    def size(self, asked):
        return len(asked[0])

    def answer(self, features):
        """Returns answer_ids, answer_probabilities, and ponder_times of networks that have them."""
        outputs = self.task.forward(self.backbone, features, training=False)
        steps = {name: outputs[name] for name in ("ponder_times",) if name in outputs}
        return {**self.task.predict(outputs), **steps}

    def predictions(self, inputs, features, outputs):
        return [self._prediction(row, features, outputs) for row in range(len(inputs))]

    def _prediction(self, row: int, features, outputs) -> StoryAnswer:
        probabilities = dict(zip(self.labels, outputs["answer_probabilities"][row].tolist(), strict=True))
        steps = outputs["ponder_times"][row][features["padding_mask"][row]] if "ponder_times" in outputs else None
        return StoryAnswer(self.labels[outputs["answer_ids"][row]], probabilities, steps)

    def attention(self, story: Story) -> np.ndarray:
        """Returns the attention weights of sentences and question in each step or layer: float32 (T, H, S, S)."""
        return np.stack([each[0] for each in self.backbone.attention_maps(self.encoder.arrays([story]))])

    def inputs(self, question):
        reason = "stories are read from plain lines, which have no columns"
        self.refuse(question, ("text_column", "text_pair_column"), reason)
        if question.text is None:
            return read_stories(question.input_file)
        if not question.text_pair:
            raise UsageError("--text: is the story here; give the question with --text_pair.")
        return [(split_story(question.text), question.text_pair)]

    def describe_prediction(self, asked, prediction):
        yield f"answer: {prediction.answer}"
        yield from likeliest(prediction.probabilities)
        if prediction.steps is not None:
            yield "steps:"
            for line, steps in zip([*asked[0], asked[1]][-len(prediction.steps) :], prediction.steps, strict=True):
                yield f"  {steps:g}  {line}"

    def line(self, asked, prediction):
        return f"{prediction.answer}\t{prediction.probabilities[prediction.answer]:.4f}\t{asked[1]}"

    def header(self):
        return ["question", "label", *self.labels]

    def record(self, asked, prediction):
        steps = {} if prediction.steps is None else {"steps": prediction.steps.tolist()}
        question = {"story": list(asked[0]), "question": asked[1]}
        return {**question, "answer": prediction.answer, "probabilities": prediction.probabilities, **steps}
