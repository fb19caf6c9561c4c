"""From what people ask to the answers that they get: a fine-tuned network, read back from the folder of its run.

`answer.py` of a task defines one `Predictor`, a subclass of this one.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from data_pipelines.corpora.tables import Columns, Row, iterate_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import CheckpointError, DataError, UsageError
from xmodels.tasks.base.find import part
from xmodels.tasks.base.run import Run, given_columns, read_run, read_task

POOL = 32  # batches that are tokenized at once, and sorted by their number of tokens
NO_PAIRS = "gives pairs of texts no scores", "--task=rank, regress, classify, similarity or san"


@dataclasses.dataclass(frozen=True)
class Question:
    """The flags of `xmodels predict` that hold what is asked: either `text` or `input_file` is there."""

    text: str | None = None
    text_pair: str | None = None
    input_file: str | None = None
    text_column: str | None = None
    text_pair_column: str | None = None


class Predictor:
    """Answers inputs with a network and its task. An input is what the task takes, such as a tuple of texts.

    Args:
        run: a fine-tuned run; the head is built and gets its weights here.
        columns: {flag: value} of the columns that `finetune` was given, as of `given_columns`.

    Attributes:
        unit: what an input is called, for bars of progress.
        answers: what predictions are called, several of them.
        flags: of `xmodels predict`, that the task takes beside those of all; they are attributes here.
        num_texts: how many texts an input has, 1 or 2; 0 where that differs.
        max_sequence_length: counts the special tokens; longer inputs are shortened.
    """

    unit, answers = "text", "answers"
    flags: ClassVar[tuple[str, ...]] = ()

    def __init__(self, run: Run, columns: dict | None = None):
        self.backbone, self.tokenizer = run.backbone, run.tokenizer
        self.num_texts, self.max_sequence_length = run.description.num_texts, run.description.max_sequence_length
        self.task = self.make_task(run)
        self.columns = columns or {}
        self.prepare()
        self.answer(self.features([self.example()]))  # builds the head
        run.assign(self.task)
        self._answer = compiled(self.answer)

    def make_task(self, run: Run):
        """The task as the run describes it, without weights."""
        return run.make_task()

    def prepare(self) -> None:
        """Makes what `features` needs. By default nothing."""

    def adjust(self, **values) -> None:
        """Sets flags of the task from now on; None leaves one as it is. Raises a UsageError where the task has no such flag."""
        for flag, value in values.items():
            if value is not None and flag not in self.flags:
                raise UsageError(f"--{flag}: --task={self.task.label} has no such flag. Leave it out.")
            if value is not None:
                setattr(self, flag, value)

    def as_input(self, text: str):
        """The input that a lone string stands for."""
        return (text,)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(getattr(self.task, "label_names", ()))

    def example(self) -> Any:
        """Some input, from which the head is built."""
        raise NotImplementedError

    def features(self, inputs: Sequence) -> dict[str, np.ndarray]:
        """Inputs of the network: arrays whose first axis is that of the inputs, `padding_mask` among them.

        Raises:
            DataError: an input is not what the task takes.
        """
        raise NotImplementedError

    def size(self, asked) -> int:
        """About how long an input is; those of like size share a batch."""
        raise NotImplementedError

    def answer(self, features) -> dict:
        """What the network answers to one batch of features: tensors, named as in the task's `signature`."""
        return self.task.predict(self.task.forward(self.backbone, features, training=False))

    def predictions(self, inputs: Sequence, features: dict, outputs: dict) -> list:
        """The prediction of each input, as people get it.

        Args:
            features: of the inputs, without columns that are padding in all rows.
            outputs: arrays, as `answer` gives them.
        """
        raise NotImplementedError

    def predict(
        self, inputs: Sequence, batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> list:
        """Answers any number of inputs; one graph serves all lengths.

        Inputs of like length share a batch, so that little is padding; the answers come in the order of the inputs.

        Args:
            batch_size: inputs that go through the network together.
            progress: called with the number of inputs answered since the last call.

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
                batch = without_padding({name: value[rows] for name, value in features.items()})
                predictions = self.predictions([inputs[pool[row]] for row in rows], batch, self._answer(batch))
                for row, prediction in zip(rows, predictions, strict=True):
                    found[pool[row]] = prediction
                progress(len(rows))
        return found

    def labelled(self, path: str) -> tuple[list, list]:
        """The inputs of a labelled file, and the right answers, in the form that `scores` takes."""
        raise NotImplementedError

    # What `xmodels encode` and `search` ask for.

    def encode(
        self, texts: Sequence[str], batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> np.ndarray:
        """The vectors of texts, float32 (N, D). Raises a UsageError where the task has none."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def encoder_settings(self) -> dict:
        """What a vector depends on beside weights and vocabulary, as JSON has it."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def encoder_weights(self) -> dict[str, np.ndarray]:
        """The weights that a vector depends on, by name."""
        raise self._cannot("gives texts no vectors", "--task=siamese")

    def pair_scores(self, query: str, texts: Sequence[str], label: str | None = None) -> list[float]:
        """How well each text suits a query, read together with it.

        Args:
            label: of a classifier, the one whose probability this is; None for the one that says by its name that texts match.

        Raises:
            UsageError: the task has no such numbers, or no such label.
        """
        raise self._cannot(*NO_PAIRS)

    def refuse_label(self, label: str | None) -> None:
        """Raises a UsageError where `pair_scores` of a task without labels is given one."""
        if label is not None:
            raise UsageError(
                f"--rerank_label={label}: --task={self.task.label} gives a pair a number, no labels. Leave it out."
            )

    def _cannot(self, what: str, tasks: str) -> UsageError:
        return UsageError(f"This run was fine-tuned with --task={self.task.label}, which {what}. Take one of {tasks}.")

    # What `xmodels predict` reads and writes.

    def inputs(self, question: Question) -> list | Iterator:
        """What is asked; None stands for a blank line of a plain file. An iterator reads the file as it is answered.

        Raises:
            DataError, UsageError: a file cannot be read, or a flag does not suit the task.
        """
        raise NotImplementedError

    def shown(self, asked, prediction) -> Iterator[str]:
        """The lines that answer --text."""
        raise NotImplementedError

    def line(self, asked, prediction) -> str:
        """The line that answers one input of a file, on the screen."""
        raise NotImplementedError

    def header(self) -> list[str]:
        """The columns of a table of answers."""
        raise NotImplementedError

    def row(self, asked, prediction) -> list:
        """The values of these columns."""
        raise NotImplementedError

    def record(self, asked, prediction) -> dict:
        """The answer as JSON; by default the columns of the table."""
        return dict(zip(self.header(), self.row(asked, prediction), strict=True))

    def columns_of(self, question: Question, label: str | None = None) -> Columns:
        """The columns given, and for those not given what `finetune` was given.

        Positions do not complete names, nor names positions: the files are of different kinds then.
        """
        stored = Columns(*(self.columns.get(name) for name in ("text_column", "text_pair_column", "label_column")))
        given = Columns(question.text_column, question.text_pair_column, label)
        if given != Columns() and given.by_position != stored.by_position:
            return given
        return Columns(given.text or stored.text, given.text_pair or stored.text_pair, given.label or stored.label)

    def refuse(self, question: Question, flags: Sequence[str], reason: str) -> None:
        """Raises a UsageError where one of these flags is given."""
        for flag in flags:
            if getattr(question, flag) is not None:
                raise UsageError(f"--{flag}: {reason}.")


def load(path: str) -> Predictor:
    """The predictor of a fine-tuned run, or of a model folder that holds a classifier.

    Raises:
        CheckpointError: the folder was not fine-tuned, writes text, or its files are damaged or do not fit each other.
    """
    module = part(read_task(path).task, "answer")
    if getattr(module, "GENERATOR", None):
        raise CheckpointError(
            f"{path}: answers texts with texts. `xmodels translate` writes them, and `xmodels evaluate` scores them."
        )
    return module.Predictor(read_run(path), given_columns(path))


def compiled(answer: Callable) -> Callable:
    """`answer` from arrays to arrays; on TensorFlow as one graph for all lengths."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        graph = tf.function(answer, reduce_retracing=True, autograph=False)

        def function(features):
            return graph({name: tf.constant(value) for name, value in features.items()})
    else:
        function = answer
    return lambda features: {n: keras.ops.convert_to_numpy(v) for n, v in function(features).items()}


def without_padding(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rows without the columns that are padding in all of them. The last axis of `padding_mask` is that of the columns."""
    mask = features["padding_mask"]
    axis, used = mask.ndim - 1, mask.any(axis=tuple(range(mask.ndim - 1)))  # (L,)
    return {n: np.compress(used, v, axis) if v.shape[: axis + 1] == mask.shape else v for n, v in features.items()}


def each_row(path: str, columns: Columns) -> Iterator[Row]:
    """The rows of a table, whose labels are not read, as they are asked for. Raises a DataError where there are none."""
    empty = True
    for row in iterate_table(path, columns, with_labels=False):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path}: holds no rows.")


def plain_lines(path: str) -> list[str]:
    """The lines of a text file, without blanks around them. Raises a DataError where there is no text."""
    return list(each_line(path))


def each_line(path: str) -> Iterator[str]:
    """The same, read as they are asked for; the error comes behind the last line."""
    empty = True
    with open_text(path) as file:
        for line in file:
            empty = empty and not line.strip()
            yield line.strip()
    if empty:
        raise DataError(f"{path}: holds no text.")
