"""A fine-tuned network that labels strings: the folder of a run, read back."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.export.task_file import read_run
from xmodels.models.backbone import Backbone
from xmodels.tasks.base import Task

ADVICE = {  # for inputs of another number of texts than the key
    1: ("single texts", "give one text, without --text_pair or --text_pair_column"),
    2: ("pairs of texts", "give the second text with --text_pair, or its column with --text_pair_column"),
}

POOL = 32  # batches that are tokenized at once, and sorted by their number of tokens


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The most probable label of one input, and the probability of each label, in the order of their ids."""

    label: str
    probabilities: dict[str, float]


class Predictor:
    """Answers texts with a network and its task, both built.

    Args:
        num_texts: how many texts one input has, 1 or 2; 0 takes both.
        max_sequence_length: counts the special tokens; longer inputs are shortened.
    """

    def __init__(self, backbone: Backbone, task: Task, tokenizer: Tokenizer, num_texts: int, max_sequence_length: int):
        self.backbone = backbone
        self.task = task
        self.tokenizer = tokenizer
        self.num_texts = num_texts
        self.max_sequence_length = max_sequence_length
        self._answer = tf.function(self.answer, reduce_retracing=True)

    @classmethod
    def load(cls, run: str) -> "Predictor":
        """Rebuilds what `xmodels finetune` has written.

        Raises:
            CheckpointError: `run` was not fine-tuned, or its files are damaged or do not fit each other.
        """
        found = read_run(run)
        description = found.description
        task = found.make_task()
        if "label_ids" not in task.signature:
            raise UsageError(
                f"{run}: was fine-tuned with --task={description.task}, which does not label texts, so it can be neither asked "
                "by `xmodels predict` nor exported yet. `xmodels evaluate` scores it."
            )
        predictor = cls(found.backbone, task, found.tokenizer, description.num_texts, description.max_sequence_length)
        predictor.answer(predictor.features([("",) * (predictor.num_texts or 1)]))  # builds the head
        found.assign(task)
        return predictor

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.task.label_names)

    def features(self, texts: Sequence[tuple[str, ...]]) -> dict[str, np.ndarray]:
        """Inputs of the network.

        Args:
            texts: B tuples of `num_texts` strings.

        Returns:
            token_ids and segment_ids, int32 (B, L), padding_mask, bool (B, L), L the longest of the batch, rounded up to a
            multiple of 8; of a task that reads pairs in both orders (B, 2, L).

        Raises:
            DataError: a tuple has another number of texts.
        """
        self._check(texts)
        return pack_texts(texts, self.tokenizer, self.max_sequence_length, self.task.reading.frame, self.task.orders)

    def answer(self, features) -> dict[str, tf.Tensor]:
        """label_ids int32 (B,) and probabilities float32 (B, C) of one batch of features."""
        outputs = self.task.forward(self.backbone, features, training=False)
        return self.task.predict(outputs)

    def predict(
        self,
        texts: Sequence[tuple[str, ...]],
        batch_size: int = 32,
        progress: Callable[[int], None] = lambda num_texts: None,
    ) -> list[Prediction]:
        """Answers any number of inputs; one graph serves all lengths.

        Inputs of like length share a batch, so that little is padding; the answers come in the order of the inputs.

        Args:
            texts: tuples of `num_texts` strings.
            batch_size: inputs that go through the network together.
            progress: called with the number of inputs answered since the last call.

        Raises:
            DataError: a tuple has another number of texts; nothing is predicted.
        """
        self._check(texts)
        predictions: list[Prediction | None] = [None] * len(texts)
        order = sorted(range(len(texts)), key=lambda index: sum(map(len, texts[index])))
        for first in range(0, len(texts), POOL * batch_size):
            pool = order[first : first + POOL * batch_size]
            features = self.features([texts[place] for place in pool])
            lengths = features["padding_mask"].sum(axis=-1).reshape(len(pool), -1).max(axis=1)
            by_length = np.argsort(lengths, kind="stable")
            for start in range(0, len(pool), batch_size):
                rows = by_length[start : start + batch_size]
                answers = self._answer_rows({name: value[rows] for name, value in features.items()})
                for row, answer in zip(rows, answers, strict=True):
                    predictions[pool[row]] = answer
                progress(len(rows))
        return predictions

    def _answer_rows(self, features: dict[str, np.ndarray]) -> list[Prediction]:
        """The answers to rows of features, without the columns that are padding in all of them."""
        mask = features["padding_mask"]
        used = mask.any(axis=tuple(range(mask.ndim - 1)))  # (L,)
        found = self._answer({name: tf.constant(value[..., used]) for name, value in features.items()})
        rows = zip(found["label_ids"].numpy(), found["probabilities"].numpy().tolist(), strict=True)
        return [Prediction(self.labels[label], dict(zip(self.labels, row, strict=True))) for label, row in rows]

    def _check(self, texts) -> None:
        num_texts = self.num_texts or (len(texts[0]) if texts and not isinstance(texts[0], str) else 1)
        for index, row in enumerate(texts):
            if isinstance(row, str) or len(row) != num_texts:
                found = "is a string, not a tuple of texts" if isinstance(row, str) else f"has {len(row)} text(s)"
                wanted, advice = ADVICE[num_texts]
                raise DataError(f"Input {index + 1} {found}, but this run was fine-tuned on {wanted}: {advice}.")
