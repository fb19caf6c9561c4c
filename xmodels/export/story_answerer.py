"""A network that answers questions about stories: the folder of a run of `finetune --task=answer_story`, read back."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.finetuning.stories import StoryEncoder
from xmodels.export.task_file import TASK_FILE, read_run

Story = tuple[Sequence[str], str]  # sentences and a question


@dataclasses.dataclass(frozen=True)
class StoryAnswer:
    """An answer, the probability of each answer, and the steps that the sentences and the question took.

    `steps` is float32 (S,), of the places of the story; None of networks that do not decide about their steps.
    """

    answer: str
    probabilities: dict[str, float]
    steps: np.ndarray | None


class StoryAnswerer:
    """Answers questions with a network and its task, both built."""

    def __init__(self, backbone, task, tokenizer, max_sequence_length: int):
        self.backbone, self.task, self.tokenizer = backbone, task, tokenizer
        words = backbone.config.max_sentence_length
        self.encoder = StoryEncoder(tokenizer, max_sequence_length - 1, words)
        self._answer = tf.function(self.outputs, reduce_retracing=True)

    @classmethod
    def load(cls, run: str) -> "StoryAnswerer":
        """Rebuilds what `finetune --task=answer_story` has written.

        Raises:
            CheckpointError: the run is damaged, or not finished.
            UsageError: it was trained for another task.
        """
        read = read_run(run)
        if read.description.task != "answer_story":
            raise UsageError(f"--model_dir={run}: {TASK_FILE} says {read.description.task}, expected answer_story.")
        answerer = cls(read.backbone, read.make_task(), read.tokenizer, read.description.max_sequence_length)
        word = next(t for i, t in enumerate(read.tokenizer.vocabulary.tokens) if i > 4)
        answerer.outputs(answerer.encoder.arrays([((word,), word)]))  # builds the head
        read.assign(answerer.task)
        return answerer

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.task.label_names)

    def outputs(self, features) -> dict[str, tf.Tensor]:
        """What the network says to a batch of features: answer_ids, answer_probabilities, and perhaps ponder_times."""
        outputs = self.task.forward(self.backbone, features, training=False)
        told = {name: outputs[name] for name in ("ponder_times",) if name in outputs}
        return {**self.task.predict(outputs), **told}

    def answer(
        self, stories: Sequence[Story], batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> list[StoryAnswer]:
        """Answers any number of questions; those of like length share a batch. In the order of the stories.

        Raises:
            DataError: a sentence or a question holds no word.
        """
        answers: list[StoryAnswer | None] = [None] * len(stories)
        order = sorted(range(len(stories)), key=lambda place: len(stories[place][0]))
        for first in range(0, len(stories), batch_size):
            places = order[first : first + batch_size]
            features = self.encoder.arrays([stories[place] for place in places])
            found = {n: v.numpy() for n, v in self._answer({n: tf.constant(v) for n, v in features.items()}).items()}
            for row, place in enumerate(places):
                steps = found["ponder_times"][row][features["padding_mask"][row]] if "ponder_times" in found else None
                probabilities = dict(zip(self.labels, found["answer_probabilities"][row].tolist(), strict=True))
                answers[place] = StoryAnswer(self.labels[found["answer_ids"][row]], probabilities, steps)
            progress(len(places))
        return answers

    def attention(self, story: Story) -> np.ndarray:
        """Where each sentence and the question look in each step or layer: float32 (T, H, S, S)."""
        return np.array(self.backbone.attention_maps(self.encoder.arrays([story])))[0]
