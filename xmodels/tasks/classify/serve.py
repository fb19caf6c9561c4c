"""Strings in, labels and probabilities out. The vocabulary, the tokenizer and the labels are part of the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.escaping import for_code_span
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.apart import Parted
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, TOKENS, Column, Signature

INPUTS = ("text", "text_pair")
EXAMPLES = ("The room was clean, and the staff friendly.", "房间很脏，再也不来了。")
CHECKED = (*EXAMPLES, "", " \t\n", "NAÏVE ﬁancé №1 👩‍🚀 [MASK]", "many words " * 300)


class TextServer(serve.Server):
    """Reads as many strings (B,) as an input has texts. Subclasses define `answer` and `columns`."""

    copies = 3  # a batch that is answered in parts

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        predictor.num_texts = predictor.num_texts or 1  # a signature has to say one number
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.max_sequence_length = predictor.max_sequence_length
        texts = dict.fromkeys(self.names, tf.string)
        reading = self.tokens, texts
        if self.task.orders:
            reading = self.in_order, {**texts, "order": tf.int32}, ORDER_NOTE
        self.attention = attention_of(self.backbone, predictor.tokenizer, *reading)

    @property
    def names(self):
        return INPUTS[: self.predictor.num_texts]

    @property
    def examples(self):
        return rows_of(EXAMPLES, len(self.names))

    @property
    def checked(self):
        return rows_of(CHECKED, len(self.names))

    def tokens(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Returns what the network reads, (B, L), with L the longest of the batch, at least 1 where the batch is empty.

        Of a task that reads pairs in both orders (B, 2, L).
        """
        texts = [text] if text_pair is None else [text, text_pair]
        if (orders := self.task.orders) is None:
            return self.tokenizer.features(texts, self.max_sequence_length)
        read = [self.tokenizer.features([texts[i] for i in order], self.max_sequence_length) for order in orders]
        return {name: tf.stack([each[name] for each in read], axis=1) for name in read[0]}  # (B, 2, L)

    def in_order(self, text: tf.Tensor, text_pair: tf.Tensor, order: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of pairs, (B, L), each in one of the orders of the task, whose place is `order`, int32
        (B,).

        Another number than that of an order is refused by an op.
        """
        known = tf.reduce_all((order >= 0) & (order < len(self.task.orders)))
        message = f"`order` must be from 0 to {len(self.task.orders) - 1}."
        with tf.control_dependencies([tf.debugging.Assert(known, [message])]):
            places = tf.gather(tf.constant(self.task.orders), order)  # (B, 2)
        texts = tf.gather(tf.stack([text, text_pair], axis=1), places, batch_dims=1)
        return self.tokenizer.features(tf.unstack(texts, axis=1), self.max_sequence_length)

    def answer(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Returns the outputs of `serving_default`, of one or two strings (B,)."""
        raise NotImplementedError

    def write(self, numbers: dict[str, tf.Tensor], *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of `answer`, of `numbers` of the network."""
        raise NotImplementedError

    def columns(self) -> list[Column]:
        """Returns the outputs of `answer`."""
        raise NotImplementedError

    def parted(self):
        texts = [Column(name, "B", "UTF-8") for name in self.names]
        return {DEFAULT: Parted(self.tokens, self.write, texts, self.columns())}

    def signatures(self):
        texts = [Column(name, "B", "UTF-8") for name in self.names]
        axes = "BL" if self.task.orders is None else ("B", len(self.task.orders), "L")
        tokens = Signature(self.tokens, texts, axes=axes, note="It shows what the network reads.")
        return {DEFAULT: Signature(self.answer, texts, self.columns()), TOKENS: tokens, **self.attention.signature()}

    def attention_example(self):
        """Returns the first text; of a pair that is read in both orders the last one."""
        row = EXAMPLES[: len(self.names)]
        features = self.predictor.features([row])
        if not (orders := self.task.orders):
            return row, features
        return [*row, len(orders) - 1], {name: value[:, -1] for name, value in features.items()}  # (1, L)

    def notes(self):
        return (
            f"An input longer than {self.max_sequence_length} pieces, special tokens counted, is shortened. An empty string is an "
            "input like any other."
        )


class LabelServer(TextServer):
    """Has `labels`, those of the output `probabilities`."""

    inside = "The vocabulary, the tokenizer and the labels are inside."

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)


class Server(LabelServer):
    """One label of each text or pair."""

    title, model = "# A text classifier exported by xmodels", "classifier"
    numbers = ("probabilities",)

    def answer(self, text, text_pair=None):
        """Returns label string (B,) and probabilities float32 (B, C) of one or two strings (B,)."""
        answer = self.outputs(self.tokens(text, text_pair))
        return {"label": tf.gather(self.labels, answer["label_ids"]), "probabilities": answer["probabilities"]}

    def write(self, numbers, *texts):
        probabilities = numbers["probabilities"]
        return {
            "label": tf.gather(self.labels, self.task.name_labels(probabilities)), "probabilities": probabilities
        }  # fmt: skip

    def completed(self, numbers):
        return {"label_ids": np.asarray(self.task.name_labels(numbers["probabilities"])), **numbers}

    def from_served(self, found, inputs):
        return {"probabilities": found["probabilities"]}

    def named(self, prediction):
        return prediction.label

    def columns(self):
        return [Column("label", "B", self.rule()), Column("probabilities", "BC", "in the order of the labels")]

    def rule(self) -> str:
        """Returns which label is named."""
        given = self.task.settings
        if (threshold := given.get("threshold")) is None:
            return "the most probable label"
        positive = given.get("positive_label", self.predictor.labels[-1])
        return f"{for_code_span(positive)} from a probability of {threshold:.4g} on"

    def expected(self, row, prediction, found):
        """Returns the probabilities of the run, and the label that follows from those of the SavedModel."""
        place = int(self.task.name_labels(np.asarray(found["probabilities"])[None])[0])
        return {"label": self.predictor.labels[place], "probabilities": list(prediction.probabilities.values())}


def rows_of(texts: tuple[str, ...], num_texts: int) -> list[tuple[str, ...]]:
    """Returns rows of one or two texts each."""
    return [(text, other)[:num_texts] for text, other in zip(texts, reversed(texts), strict=True)]


ORDER_NOTE = "`order` is 0 for the pair as it stands, 1 for the other way round."
