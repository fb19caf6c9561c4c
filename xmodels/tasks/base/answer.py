"""Prediction with a fine-tuned network that is read from the folder of its run.

`answer.py` of a task defines one `Predictor`, a subclass of this one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, iterate_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import CheckpointError, DataError, UsageError
from xmodels.tasks.base.description import Run
from xmodels.tasks.base.forms import Forms
from xmodels.tasks.base.replicas import answer_on_replicas

POOL = 32  # batches that are tokenized together and sorted by their number of tokens
STREAM_SIZE = 512  # inputs
NO_PAIRS = "gives pairs of texts no scores", "--task=rank, regress, classify, similarity or san"


@dataclasses.dataclass(frozen=True)
class Question:
    """The flags of `xmodels predict` that give the inputs: either `text` or `input_file` is set."""

    text: str | None = None
    text_pair: str | None = None
    input_file: str | None = None
    text_column: str | None = None
    text_pair_column: str | None = None


class Predictor(Forms):
    """Predicts with a network and its task. An input is what the task takes, such as a tuple of texts.

    Args:
        run: a fine-tuned run; the head is built and gets its weights here.
        columns: {flag: value} of the columns that `finetune` was given, as returned by `given_columns`.

    Attributes:
        unit: the name of an input, for progress bars.
        answers: the plural name of predictions.
        flags: flags of `xmodels predict` that only this task takes; they are attributes here.
        num_texts: texts per input, 1 or 2; 0 if that differs.
        max_sequence_length: including special tokens; longer inputs are truncated.
        share: where tasks share a file, what gives its predictions to the score: a function of what predicts inputs, and of all
            inputs. None where one process predicts all.
    """

    unit, answers = "text", "answers"
    flags: ClassVar[tuple[str, ...]] = ()
    share: Callable[[Callable[[Sequence], list], Sequence], list] | None = None

    def __init__(self, run: Run, columns: dict | None = None):
        self.backbone, self.tokenizer = run.backbone, run.tokenizer
        self.num_texts, self.max_sequence_length = run.description.num_texts, run.description.max_sequence_length
        self.task = self.make_task(run)
        self.columns = columns or {}
        self.prepare()
        self.answer(self.features([self.example()]))  # builds the head
        run.assign(self.task)
        self._answer = compile_answer(self.answer)

    def make_task(self, run: Run):
        """Returns the task as described by the run, without weights."""
        return run.make_task()

    def prepare(self) -> None:
        """Creates what `features` needs; by default nothing."""

    def adjust(self, **values) -> None:
        """Sets flags of the task; None leaves one as it is. Raises a UsageError if the task has no such flag."""
        for flag, value in values.items():
            if value is not None and flag not in self.flags:
                raise UsageError(f"--{flag}: --task={self.task.label} has no such flag. Leave it out.")
            if value is not None:
                setattr(self, flag, value)

    @property
    def stream_size(self) -> int:
        """Returns how many inputs of a stream are read and answered together."""
        return STREAM_SIZE

    def as_input(self, text: str):
        """Returns a single string as an input."""
        return (text,)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(getattr(self.task, "label_names", ()))

    def example(self) -> Any:
        """Returns an example of an input, with which the head is built."""
        raise NotImplementedError

    def features(self, inputs: Sequence) -> dict[str, np.ndarray]:
        """Converts inputs to features of the network: arrays (N, ...), including `padding_mask`.

        Raises:
            DataError: an input is not what the task takes.
        """
        raise NotImplementedError

    def size(self, asked) -> int:
        """Returns the approximate length of an input; inputs of similar size share a batch."""
        raise NotImplementedError

    def answer(self, features) -> dict:
        """Returns the outputs of the task for a batch of features: tensors, named as in its `signature`."""
        return self.task.predict(self.task.forward(self.backbone, features, training=False))

    def predictions(self, inputs: Sequence, features: dict, outputs: dict) -> list:
        """Converts the outputs for a batch to predictions, one per input.

        Args:
            inputs: the inputs of the batch.
            features: their features, without columns that are padding in all rows.
            outputs: the result of `answer`, as arrays.
        """
        raise NotImplementedError

    def predict(
        self, inputs: Sequence, batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> list:
        """Predicts any number of inputs, with one graph for all lengths.

        Inputs of similar length share a batch, to avoid padding. The predictions are in the order of the inputs.

        Args:
            inputs: what the task takes.
            batch_size: inputs per batch.
            progress: called with the number of inputs since the last call.

        Raises:
            DataError: an input is not what the task takes.
        """
        found: list = [None] * len(inputs)
        order = sorted(range(len(inputs)), key=lambda index: self.size(inputs[index]))
        for first in range(0, len(inputs), POOL * batch_size):
            pool = order[first : first + POOL * batch_size]
            features = self.features([inputs[place] for place in pool])
            lengths = features["padding_mask"].sum(axis=-1).reshape(len(pool), -1).max(axis=1)
            by_length = np.argsort(lengths, kind="stable")
            for start in range(0, len(pool), batch_size):
                rows = by_length[start : start + batch_size]
                batch = self.batch_of({name: value[rows] for name, value in features.items()})
                predictions = self.predictions([inputs[pool[row]] for row in rows], batch, self._answer(batch))
                for row, prediction in zip(rows, predictions, strict=True):
                    found[pool[row]] = prediction
                progress(len(rows))
        return found

    def predict_stream(self, inputs: Sequence, batch_size: int) -> Sequence:
        """Predicts `stream_size` inputs or fewer. Returns what `predict` does, which may be made as it is asked for."""
        return self.predict(inputs, batch_size)

    def batch_of(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the features of the rows of a batch without what is padding in all of them."""
        return without_padding(features)

    def read_labelled(self, path: str) -> tuple[list, list]:
        """Reads a labelled file: returns its inputs and the true answers, in the form that `scores` takes."""
        raise NotImplementedError

    # For `xmodels encode` and `search`.

    def encode(
        self, texts: Sequence[str], batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> np.ndarray:
        """Returns the vectors of texts, float32 (N, D). Raises a UsageError if the task has none."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def encoder_settings(self) -> dict:
        """Returns the settings that vectors depend on other than weights and vocabulary, as JSON values."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def encoder_weights(self) -> dict[str, np.ndarray]:
        """Returns the weights that vectors depend on, by name."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def pair_scores(self, query: str, texts: Sequence[str], label: str | None = None) -> list[float]:
        """Returns how well each text matches a query; the network reads both together.

        Args:
            query, texts: what is compared.
            label: for a classifier, the label whose probability is the score; None for the one whose name says that texts match.

        Raises:
            UsageError: the task has no such scores, or no such label.
        """
        raise self._cannot(*NO_PAIRS)

    def refuse_label(self, label: str | None) -> None:
        """Raises a UsageError if `pair_scores` of a task without labels is given one."""
        if label is not None:
            raise UsageError(
                f"--rerank_label={label}: --task={self.task.label} gives a pair a number, no labels. Leave it out."
            )

    def _cannot(self, what: str, tasks: str) -> UsageError:
        return UsageError(f"This run was fine-tuned with --task={self.task.label}, which {what}. Take one of {tasks}.")

    # For `xmodels predict`.

    def inputs(self, question: Question) -> list | Iterator:
        """Returns the inputs; None for a blank line of a plain text file. An iterator reads the file lazily.

        Raises:
            DataError, UsageError: a file cannot be read, or a flag does not fit the task.
        """
        raise NotImplementedError

    def table_rows(self, question: Question) -> Iterator[Row]:
        """Yields the rows of a table that is asked, without labels."""
        return each_row(question.input_file, self.columns_of(question.text_column, question.text_pair_column))

    def columns_of(self, text: str | None, text_pair: str | None = None, label: str | None = None) -> Columns:
        """Returns the columns of the flags, completed with those that `finetune` was given.

        Column numbers are not completed with names, nor names with numbers, since the files are then of different kinds.
        """
        stored = Columns(*(self.columns.get(name) for name in ("text_column", "text_pair_column", "label_column")))
        given = Columns(text, text_pair, label)
        if given != Columns() and given.by_position != stored.by_position:
            return given
        return Columns(text or stored.text, text_pair or stored.text_pair, label or stored.label)

    def refuse(self, question: Question, flags: Sequence[str], reason: str) -> None:
        """Raises a UsageError if one of these flags is given."""
        for flag in flags:
            if getattr(question, flag) is not None:
                raise UsageError(f"--{flag}: {reason}.")


def compile_answer(answer: Callable) -> Callable:
    """Wraps `answer` as a function from arrays to arrays; with TensorFlow it is one graph for all lengths.

    The function raises a CheckpointError where the network answers NaN or infinity. Called in the scope of a strategy with several
    devices, all of them answer.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync > 1:
            on_replicas = answer_on_replicas(answer, strategy)
            return lambda features: check_finite(on_replicas(features))

        # A partial, or TensorFlow takes the functions of all predictors for a single one that is retraced, and warns.
        graph = tf.function(functools.partial(answer), reduce_retracing=True, autograph=False)

        def function(features):
            return graph({name: tf.constant(value) for name, value in features.items()})
    else:
        function = answer
    return lambda features: check_finite({n: keras.ops.convert_to_numpy(v) for n, v in function(features).items()})


def check_finite(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a network answers. Raises a CheckpointError that names the output where that is NaN or infinity."""
    for name, value in outputs.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise overflow_error(f"`{name}`")
    return outputs


def overflow_error(what: str) -> CheckpointError:
    """Returns the error of a network that answers NaN or infinity."""
    return CheckpointError(
        f"The network answers NaN or infinity in {what}: its weights are so large that it cannot compute with them. Take another "
        "checkpoint, or an earlier state."
    )


def without_padding(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Removes the columns that are padding in all rows, but never all. Columns are the last axis of `padding_mask`."""
    mask = features["padding_mask"]
    axis, used = mask.ndim - 1, mask.any(axis=tuple(range(mask.ndim - 1)))  # (L,)
    used[:1] |= not used.any()
    return {n: np.compress(used, v, axis) if v.shape[: axis + 1] == mask.shape else v for n, v in features.items()}


def at_least_one(inputs: Iterable, problem: str) -> Iterator:
    """Yields inputs; with none of them it raises a DataError."""
    empty = True
    for each in inputs:
        empty = False
        yield each
    if empty:
        raise DataError(problem)


def each_row(path: str, columns: Columns) -> Iterator[Row]:
    """Returns the rows of a table one by one, without labels. Raises a DataError if there are none."""
    return at_least_one(iterate_table(path, columns, with_labels=False), f"{path}: holds no rows.")


def plain_lines(path: str) -> list[str]:
    """Returns the lines of a text file, without surrounding whitespace. Raises a DataError if there is no text."""
    return list(each_line(path))


def each_line(path: str) -> Iterator[str]:
    """Yields the lines of `plain_lines`; the error is raised after the last line."""
    empty = True
    with open_text(path) as file:
        for line in file:
            line = line.strip()
            empty = empty and not line
            yield line
    if empty:
        raise DataError(f"{path}: holds no text.")
