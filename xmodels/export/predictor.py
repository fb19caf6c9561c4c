"""A fine-tuned network that answers strings: the folder of a run, read back.

A run of `xmodels finetune` holds task.json, with what the network was trained to do, and backbone/, a model folder.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.records import write_json
from data_pipelines.text import kinds
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import MAX_WORD_CHARACTERS, WordPieceTokenizer
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.tasks.base import Task
from xmodels.tasks.classify import Classify

TASK_FILE = "task.json"
BACKBONE_FOLDER = "backbone"


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """What task.json says.

    Attributes:
        task: `classify`.
        labels: the names of the classes, in the order of their ids.
        num_texts: 1, or 2 where pairs of texts are classified; 0 where nothing says it, so that both are taken.
        max_sequence_length: counts the special tokens; longer inputs are shortened.
    """

    task: str
    labels: list[str]
    num_texts: int
    max_sequence_length: int


ADVICE = {  # for inputs of another number of texts than the key
    1: ("single texts", "give one text, without --text_pair or --text_pair_column"),
    2: ("pairs of texts", "give the second text with --text_pair, or its column with --text_pair_column"),
}
CHECKS = {
    "task": (lambda x: x == "classify", '"classify"'),
    "labels": (
        lambda x: isinstance(x, list) and x and all(isinstance(y, str) for y in x) and len(set(x)) == len(x),
        "a list of different strings",
    ),
    "num_texts": (lambda x: type(x) is int and x in (1, 2), "1 or 2"),
    "max_sequence_length": (lambda x: type(x) is int and x > 3, "a whole number above 3"),
}


def write_task(run: str, task: Classify, num_texts: int, max_sequence_length: int) -> None:
    """Writes task.json into the folder `run`, which must exist."""
    description = TaskDescription(task.label, list(task.label_names), num_texts, max_sequence_length)
    write_json(os.path.join(run, TASK_FILE), dataclasses.asdict(description))


def task_of_model(path: str) -> TaskDescription | None:
    """What a model folder says that holds a classifier, as `convert_checkpoint` writes one; None for other folders.

    It does not say how many texts an input has, so one and two are taken; classes without names are LABEL_0 and so on.
    """
    weights = os.path.join(path, folder.WEIGHTS)
    if not os.path.isfile(weights):
        return None
    bias = folder.read_weights(weights).get("objective.classify.head.bias")
    if bias is None:
        return None
    labels = folder.read_labels(path) or [f"LABEL_{index}" for index in range(len(bias))]
    return TaskDescription("classify", list(labels), 0, folder.read_config(path)[0].max_sequence_length)


def read_task(run: str) -> TaskDescription:
    """Reads task.json, or for a model folder that holds a classifier what stands in its place.

    Raises:
        CheckpointError: `run` is no folder, was not fine-tuned, or its task.json is damaged.
    """
    path = os.path.join(run, TASK_FILE)
    if not os.path.isdir(run):
        raise CheckpointError(f"{run}: no such run folder.")
    if not os.path.isfile(path) and (description := task_of_model(run)):
        return description
    if not os.path.isfile(path):
        raise CheckpointError(
            f"{run}: has no {TASK_FILE}, so it is a pretraining run, which knows no labels. "
            "Fine-tune it first with `xmodels finetune`."
        )
    values = folder.read_json(path)
    if set(values) != set(CHECKS):
        raise CheckpointError(
            f"{path}: expected the keys {', '.join(CHECKS)}. Found: {', '.join(list(values)[:8]) or 'none'}."
        )
    for name, (fits, wanted) in CHECKS.items():
        if not fits(values[name]):
            raise CheckpointError(f"{path}: `{name}` must be {wanted}. Found: {values[name]!r}.")
    return TaskDescription(**values)


def read_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a model folder, from its vocabulary files and tokenizer_config.json.

    Raises:
        CheckpointError: one of the two is missing or damaged.
    """
    source = os.path.join(path, folder.TOKENIZER)
    values = {"max_word_characters": MAX_WORD_CHARACTERS, **folder.read_json(source)}  # converted models lack it
    if values.get("tokenizer") in set(kinds.KINDS) - {"wordpiece"}:
        try:
            return kinds.read_tokenizer(path)
        except DataError as error:
            raise CheckpointError(f"{path}: not a whole model folder. {error}") from None
    lower, longest = values.get("do_lower_case"), values["max_word_characters"]
    if values.get("tokenizer") != "wordpiece" or type(lower) is not bool or type(longest) is not int or longest < 1:
        raise CheckpointError(
            f'{source}: expected "tokenizer": "wordpiece", `do_lower_case` true or false, and `max_word_characters` '
            f"a whole number above 0. Found: {values.get('tokenizer')!r:.40}, {lower!r:.40} and {longest!r:.40}."
        )
    try:
        vocabulary = Vocabulary.read(os.path.join(path, folder.VOCABULARY))
    except DataError as error:
        raise CheckpointError(f"{path}: not a whole model folder. {error}") from None
    return WordPieceTokenizer(vocabulary, lower, longest)


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
        description = read_task(run)
        path = os.path.join(run, BACKBONE_FOLDER)
        if os.path.isfile(os.path.join(run, folder.WEIGHTS)):
            path = run
        elif not os.path.isdir(path):
            raise CheckpointError(
                f"{run}: this fine-tuning was interrupted and has no {BACKBONE_FOLDER}/ yet. Finish it with "
                f"`xmodels finetune --flagfile={os.path.join(run, 'flags.txt')}`."
            )
        tokenizer = read_tokenizer(path)
        config, _ = folder.read_config(path)
        if len(tokenizer.vocabulary) != config.vocabulary_size:
            raise CheckpointError(
                f"{path}: the vocabulary holds {len(tokenizer.vocabulary)} tokens, but the network has "
                f"{config.vocabulary_size} (`vocabulary_size` in {folder.CONFIG}); they are not of the same model."
            )
        if description.max_sequence_length > config.max_sequence_length:
            raise CheckpointError(
                f"{os.path.join(run, TASK_FILE)}: `max_sequence_length` is {description.max_sequence_length}, but the "
                f"network reads at most {config.max_sequence_length} tokens (`max_sequence_length` in {folder.CONFIG})."
            )
        backbone, heads = folder.read_model(path)
        task = Classify(config, description.labels)
        predictor = cls(backbone, task, tokenizer, description.num_texts, description.max_sequence_length)
        predictor.answer(predictor.features([("",) * (predictor.num_texts or 1)]))  # builds the head
        folder.assign(task.prefix, task, heads, os.path.join(path, folder.WEIGHTS))
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
            multiple of 8.

        Raises:
            DataError: a tuple has another number of texts.
        """
        self._check(texts)
        return pack_texts(texts, self.tokenizer, self.max_sequence_length)

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
        for first in range(0, len(texts), batch_size):
            places = order[first : first + batch_size]
            rows = [texts[place] for place in places]
            features = self.features(rows)
            used = features["padding_mask"].any(axis=0)  # of the columns up to a multiple of 8
            features = {name: tf.constant(value[:, used]) for name, value in features.items()}
            answer = {name: value.numpy() for name, value in self._answer(features).items()}
            for place, label, row in zip(places, answer["label_ids"], answer["probabilities"], strict=True):
                probabilities = dict(zip(self.labels, row.tolist(), strict=True))
                predictions[place] = Prediction(self.labels[label], probabilities)
            progress(len(rows))
        return predictions

    def _check(self, texts) -> None:
        num_texts = self.num_texts or (len(texts[0]) if texts and not isinstance(texts[0], str) else 1)
        for index, row in enumerate(texts):
            if isinstance(row, str) or len(row) != num_texts:
                found = "is a string, not a tuple of texts" if isinstance(row, str) else f"has {len(row)} text(s)"
                wanted, advice = ADVICE[num_texts]
                raise DataError(f"Input {index + 1} {found}, but this run was fine-tuned on {wanted}: {advice}.")
