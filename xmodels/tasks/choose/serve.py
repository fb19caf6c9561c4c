"""Context, question and choices in; the likeliest choice out."""

import sys

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.choices import BLANK, ChoiceQuestion
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.joining import gap
from xmodels.tasks.base import serve
from xmodels.tasks.base.apart import Parted
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature

EXAMPLES = (
    ("It rained all day.", "What did Ann take?", ["An umbrella.", "A fish.", "The bus."]),
    ("今天下雨了。", "她带了什么？", ["雨伞", "一条鱼"]),
)
CHECKED = (
    *EXAMPLES, ("", f"He {BLANK} it.", ["saw", "ate", ""]), ("many words " * 300, "Why?", ["because", "so " * 40, "then", "no"]),
    ("It rained.", "Why " * 300 + "?", ["because", "so " * 40]),
)  # fmt: skip


class Server(serve.Server):
    """One signature, of questions with up to C choices each."""

    title, model = "# A chooser of answers exported by xmodels", "chooser"
    answers, numbers = "that chooses one of several answers", ("probabilities",)
    names, examples, checked = ("context", "question", "choices"), EXAMPLES, CHECKED

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.reading, self.max_sequence_length = predictor.task.reading, predictor.max_sequence_length
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, self.reading.frame)
        self.wide_runs = tf.constant(wide_runs())
        inputs = dict.fromkeys(("context", "question", "choice"), tf.string)
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.with_choice, inputs)

    def features(self, context: tf.Tensor, question: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        """Works as `packing.pack_choices`, of strings (B,), (B,) and (B, C); an empty choice is none."""
        count = tf.shape(choices)[1]
        choice = tf.reshape(choices, [-1])  # (N,), N = B C
        context, question = tf.repeat(context, count), fill_blank(tf.repeat(question, count), choice)
        before = tf.where(context == "", "", self.between(context, question))
        parts = context, before + question, self.between(question, choice) + choice
        context, question, choice = (self.tokenizer.tokenize(part) for part in parts)  # ids (N, None)
        capacity = max_text_tokens(2, self.max_sequence_length, self.reading.frame)
        choice = first_ids(choice, capacity)
        question = first_ids(question, capacity - choice.row_lengths())
        context = first_ids(context, capacity - question.row_lengths() - choice.row_lengths())
        if self.reading.asks_first:
            texts = [tf.concat([context, question], axis=1), choice]
        else:
            texts = [context, tf.concat([question, choice], axis=1)]
        flat = self.tokenizer.framed(texts, self.max_sequence_length)
        there = choices != ""  # (B, C)
        found = {}
        for name, value in flat.items():
            value = tf.reshape(value, [-1, count, tf.shape(value)[1]])  # (B, C, L)
            found[name] = tf.where(there[:, :, None], value, tf.zeros([], value.dtype))
        return {**found, "choice_weights": tf.cast(there, tf.float32)}

    def with_choice(self, context: tf.Tensor, question: tf.Tensor, choice: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of questions with a choice each, strings (B,): (B, L)."""
        return first_choices(self.features(context, question, choice[:, None]))

    def between(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Returns what stands between two texts (N,), as `joining.gap` has it."""
        with tf.device("CPU:0"):
            some = [tf.where(text == "", " ", text) for text in (left, right)]  # an empty text has no character
            last, first = (
                tf.strings.substr(text, at, 1, unit="UTF8_CHAR") for text, at in zip(some, (-1, 0), strict=True)
            )
            return tf.where((left == "") | (right == "") | (self.is_wide(last) & self.is_wide(first)), "", " ")

    def is_wide(self, character: tf.Tensor) -> tf.Tensor:
        code = tf.strings.unicode_decode(character, "UTF-8").to_tensor(0, shape=(None, 1))[:, 0]
        return tf.searchsorted(self.wide_runs, code, side="right") % 2 == 1

    def answer(self, context: tf.Tensor, question: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns choice int32 (B,), text string (B,) and probabilities float32 (B, C)."""
        outputs = self.task.forward(self.backbone, self.features(context, question, choices), training=False)
        found = self.task.predict(outputs)
        text = tf.gather(choices, found["choices"], batch_dims=1)
        return {"choice": found["choices"], "text": text, "probabilities": found["probabilities"]}

    def write(self, numbers, context, question, choices):
        """Returns the outputs of `answer`, of probabilities (B, C)."""
        probabilities = numbers["probabilities"]
        choice = tf.argmax(probabilities, axis=1, output_type=tf.int32)
        return {"choice": choice, "text": tf.gather(choices, choice, batch_dims=1), "probabilities": probabilities}

    def signatures(self):
        return {DEFAULT: Signature(self.answer, *self.columns()), **self.attention.signature()}

    def parted(self):
        return {DEFAULT: Parted(self.features, self.write, *self.columns())}

    def columns(self) -> tuple[list[Column], list[Column]]:
        """Returns the inputs and the outputs of `answer`."""
        inputs = [
            Column("context", "B", "UTF-8; empty where there is none"),
            Column("question", "B", f"where it holds `{BLANK}`, the choices fill this blank"),
            Column("choices", "BC", "empty strings are no choices"),
        ]
        outputs = [
            Column("choice", "B", "the place of the likeliest choice, from 0"), Column("text", "B", "this choice"),
            Column("probabilities", "BC"),
        ]  # fmt: skip
        return inputs, outputs

    def served_rows(self, inputs):
        return [(each.context, each.question, list(each.choices)) for each in inputs]

    def from_served(self, found, inputs):
        return {"probabilities": found["probabilities"]}

    def named(self, prediction):
        return prediction.choice

    def predictions(self, rows):
        return self.predictor.predict(questions(rows))

    def expected(self, row, prediction, found):
        wanted = np.zeros(len(row[2]), np.float32)
        wanted[[place for place, choice in enumerate(row[2]) if choice]] = prediction.probabilities
        return {"probabilities": wanted}

    def attention_example(self):
        context, question, (choice, *_) = EXAMPLES[0]
        return (context, question, choice), first_choices(self.predictor.features(questions(EXAMPLES[:1])))

    def notes(self):
        return (
            f"Of context, question and choice together at most {self.max_sequence_length} pieces are read, special tokens counted; "
            "the context loses its end."
        )


def fill_blank(question: tf.Tensor, choice: tf.Tensor) -> tf.Tensor:
    """Questions (N,) whose blank, where they have one, holds the choice."""
    with tf.device("CPU:0"):
        parts = tf.strings.split(question, BLANK)  # (N, None)
        place = tf.ragged.range(parts.row_lengths()).flat_values
        row = parts.value_rowids()
        between = tf.where(place > 0, tf.gather(choice, row), "")
        return tf.strings.reduce_join(parts.with_flat_values(between + parts.flat_values), axis=-1)


def first_choices(features):
    """Returns what the network reads of the first choice of each question, (B, L), of features (B, C, L)."""
    return {name: value[:, 0] for name, value in features.items() if name != "choice_weights"}


def wide_runs() -> np.ndarray:
    """Returns where runs of wide characters begin and end, in turn."""
    wide = np.array([False, *(gap(chr(code), "中") == "" for code in range(sys.maxunicode + 1)), False])
    return (np.flatnonzero(wide[1:] != wide[:-1])).astype(np.int32)


def questions(rows) -> list[ChoiceQuestion]:
    return [ChoiceQuestion(context, asked, [c for c in choices if c], None, "") for context, asked, choices in rows]


def first_ids(ids: tf.RaggedTensor, most: int | tf.Tensor) -> tf.RaggedTensor:
    """Returns the first ids of each row (N, None), at most so many."""
    kept = tf.minimum(tf.cast(most, tf.int64), tf.cast(ids.row_lengths(), tf.int64))
    return tf.RaggedTensor.from_tensor(ids.to_tensor(), lengths=kept)
