"""A predictor as a TensorFlow graph from strings to predictions. `xmodels.export` saves it without knowing the task.

`serve.py` of a task defines one `Server`, a subclass of this one: the functions from inputs to outputs, and what they are. README.md
and the comparison with the run follow from that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from data_pipelines.ops.length_sorting import answer_in_parts
from xmodels.tasks.base.apart import Apart
from xmodels.tasks.base.comparison import check_empty, check_tokens, compare_answers
from xmodels.tasks.base.served_attention import NoAttention, ServedAttention
from xmodels.tasks.base.signatures import ATTENTION, DEFAULT, TOKENS, Signature, in_columns


class Server(Apart, tf.Module):
    """Holds everything that goes into a SavedModel: the network, its head, the tables of the tokenizer.

    Args:
        predictor: of the task.
        serving_ops: `core` needs only TensorFlow; `text` is faster and needs tensorflow_text.

    Attributes:
        title: the first line of the README, by which an earlier export is recognised.
        answers: describes the SavedModel in the line that is printed.
        model: its name in the requests of the README.
        inside: the line of the README that says what the SavedModel holds beside the network.
        flags: flags of `xmodels export_model` that only this task takes; they are keyword arguments here.
        probability_labels: the labels of the output `probabilities`, in order, if no output contains them.
        names: of the inputs of `serving_default`, in order.
        examples: rows of the README, each with a value for each name.
        checked: rows by which the SavedModel is compared with the run.
        copies: how often they stand in one batch; 0 compares them one by one only.
        has_numbers: whether outputs have numbers that may differ by rounding.
        attention: the signature of the attention weights.
    """

    title: ClassVar[str] = "# A network exported by xmodels"
    answers: ClassVar[str] = "of raw strings"
    model: ClassVar[str] = "model"
    inside: ClassVar[str] = "The vocabulary and the tokenizer are inside."
    flags: ClassVar[tuple[str, ...]] = ()
    probability_labels: Sequence[str] | None = None
    names: Sequence[str] = ("text",)
    examples: Sequence[tuple] = ()
    checked: Sequence[tuple] = ()
    copies: ClassVar[int] = 1
    has_numbers: ClassVar[bool] = True
    attention: ServedAttention | NoAttention = NoAttention()

    def __init__(self, predictor, serving_ops: str):
        super().__init__()
        self.predictor = predictor  # plain Python: it is not saved
        self.serving_ops = serving_ops
        self.backbone, self.task = predictor.backbone, predictor.task

    def outputs(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the predictions for rows of features, (B, L) or (B, S, L). Rows of similar length are computed together."""

        def answer(part):
            return self.task.predict(self.task.forward(self.backbone, part, training=False))

        return answer_in_parts(answer, features)

    def signatures(self) -> Mapping[str, Signature]:
        """Returns the signatures by name; `serving_default` is one of them."""
        raise NotImplementedError

    def notes(self) -> str:
        """Returns the lines of the README below the tables of the signatures."""
        return ""

    def sections(self) -> str:
        """Returns further sections at the end of the README."""
        return ""

    # The comparison.

    def columns_of(self, rows: Sequence[tuple]) -> Mapping[str, Any]:
        """Returns rows of `examples` or `checked` as inputs of `serving_default`."""
        return in_columns(self.names, rows)

    def predictions(self, rows: Sequence[tuple]) -> Sequence:
        """Returns what the run answers to rows."""
        return self.predictor.predict(rows)

    def expected(self, row: tuple, prediction, found: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """Returns the outputs of `serving_default` for which a prediction of the run stands. Arguments as in `compare_answers`."""
        raise NotImplementedError

    def attention_example(self) -> tuple[Sequence, Mapping[str, np.ndarray]]:
        """Returns inputs of the signature `attention`, and the features of the run for them, (1, L)."""
        raise NotImplementedError

    def compare(self, served: Mapping[str, Any]) -> float | None:
        """Returns the largest difference between the outputs of the SavedModel and those of the run; None for texts, which must
        be equal.

        Args:
            served: {name of the signature: function of the SavedModel}.

        Raises:
            RuntimeError: the outputs of the SavedModel are not those of the run.
        """
        if TOKENS in served:
            check_tokens(served[TOKENS], self.columns_of(self.checked), self.predictor.features(self.checked))
        check_empty(served[DEFAULT])
        largest = self.compare_signature(served[DEFAULT], self.predictions(self.checked), self.expected)
        if ATTENTION in served:
            largest = max(largest, self.attention.compare(served, *self.attention_example()))
        return largest if self.has_numbers else None

    def compare_signature(self, signature, predictions: Sequence, expected, **others) -> float:
        """Works as `compare_answers`, on `checked` and what the run answers to them; `others` are further inputs."""
        rows = self.checked
        return compare_answers(
            signature, lambda some: {**self.columns_of(some), **others}, rows,
            lambda place, found: expected(rows[place], predictions[place], found), self.copies,
        )  # fmt: skip


def spell_ids(ids: tf.RaggedTensor, spelling: tf.Tensor) -> tf.Tensor:
    """Converts ragged ids (B, None) to texts, string (B,), as `text.spelling.spell_out` does."""
    with tf.device("CPU:0"):
        text = tf.strings.reduce_join(tf.gather(spelling, ids), axis=-1)
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        return tf.strings.regex_replace(text, "^ +| +$", "")
