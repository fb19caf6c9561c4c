"""Strings in, labels and probabilities out. The vocabulary, the tokenizer and the labels are part of the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.escaping import for_code_span, for_json_line, for_markdown
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.base.served_attention import attention_of

INPUTS = ("text", "text_pair")
EXAMPLES = ("The room was clean, and the staff friendly.", "房间很脏，再也不来了。")
CHECKED = (*EXAMPLES, "", " \t\n", "NAÏVE ﬁancé №1 👩‍🚀 [MASK]", "many words " * 300)
TIMES = 3  # that they stand in a batch which is answered in parts


class Server(serve.Server):
    """`serving_default` and `tokens` take INPUTS, string (B,), as many as an input has texts."""

    title = "# A text classifier exported by xmodels"

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        predictor.num_texts = predictor.num_texts or 1  # a signature has to say one number
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)
        self.max_sequence_length = predictor.max_sequence_length
        texts = dict.fromkeys(self.names, tf.string)
        reading = self.tokens, texts
        if self.task.orders:
            reading = self.in_order, {**texts, "order": tf.int32}, ORDER_NOTE
        self.attention = attention_of(self.backbone, predictor.tokenizer, *reading)

    @property
    def names(self):
        return INPUTS[: self.predictor.num_texts]

    def tokens(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Returns what the network reads, (B, L), with L the longest of the batch, at least 1 where the batch is empty.

        Of a task that reads pairs in both orders (B, 2, L).
        """
        texts = [text] if text_pair is None else [text, text_pair]
        if (orders := self.task.orders) is None:
            features = self.tokenizer.features(texts, self.max_sequence_length)
        else:
            read = [self.tokenizer.features([texts[i] for i in order], self.max_sequence_length) for order in orders]
            features = {name: tf.stack([each[name] for each in read], axis=1) for name in read[0]}  # (B, 2, L)
        rank = features["token_ids"].shape.rank
        missing = tf.cast(tf.shape(features["token_ids"])[-1] == 0, tf.int32)
        margins = [[0, 0]] * (rank - 1) + [[0, missing]]
        return {n: tf.pad(x, margins + [[0, 0]] * (x.shape.rank - rank)) for n, x in features.items()}

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
        """Returns label string (B,) and probabilities float32 (B, C) of one or two strings (B,)."""
        answer = self.outputs(self.tokens(text, text_pair))
        return {"label": tf.gather(self.labels, answer["label_ids"]), "probabilities": answer["probabilities"]}

    def signatures(self):
        specs = [tf.TensorSpec([None], tf.string, name=name) for name in self.names]
        others = self.attention.signature()
        return {"serving_default": (self.answer, specs), "tokens": (self.tokens, specs), **others}

    def compare(self, served):
        """Works as `serve.Server.compare`; token ids must not differ at all, and an empty batch gets no answers."""
        predictor, names = self.predictor, self.names
        rows = [(text, other)[: len(names)] for text, other in zip(CHECKED, reversed(CHECKED), strict=True)]
        expected, found = predictor.features(rows), ask(served["tokens"], rows)
        expected = without_padding(expected)
        if not all(np.array_equal(found[name], expected[name]) for name in expected):
            raise RuntimeError("The exported model cuts texts into other pieces than the run. Please report this.")
        answers = [ask(served["serving_default"], [row]) for row in rows]  # one by one: each has a length of its own
        found = np.concatenate([x["probabilities"] for x in answers])  # (B, C)
        together = ask(served["serving_default"], rows * TIMES)["probabilities"]  # in parts of like length
        wanted = self.probabilities(rows)
        difference = check_difference(
            max(float(np.max(np.abs(found - wanted))), float(np.max(np.abs(together - np.tile(wanted, (TIMES, 1))))))
        )
        if [x["label"][0].decode() for x in answers] != self.labels_of(found):
            raise RuntimeError("The exported model names other labels than the run. Please report this.")
        if len(served["serving_default"](**{name: tf.constant([], tf.string) for name in names})["label"]):
            raise RuntimeError("The exported model answers an empty batch. Please report this.")
        return max(difference, self.compare_attention(served))

    def compare_attention(self, served) -> float:
        """Works as `ServedAttention.compare`, of the first text; of a pair that is read in both orders of the last one."""
        row = EXAMPLES[: len(self.names)]
        features = self.predictor.features([row])
        if not (orders := self.task.orders):
            return self.attention.compare(served, row, features)
        last = {name: value[:, -1] for name, value in features.items()}  # (1, L)
        return self.attention.compare(served, [*row, len(orders) - 1], last)

    def labels_of(self, probabilities: np.ndarray) -> list[str]:
        """Returns what the run names, of probabilities (B, C)."""
        return [self.predictor.labels[int(place)] for place in self.task.named(probabilities)]

    def probabilities(self, rows: list[tuple[str, ...]]) -> np.ndarray:
        """Returns float32 (B, C), as the run sees them."""
        found = self.predictor.predict(rows, len(CHECKED))
        return np.array([list(each.probabilities.values()) for each in found], np.float32)

    def example_outputs(self, rows: list[tuple[str, ...]]) -> dict[str, list]:
        """Returns what `serving_default` answers, as JSON has it, with numbers rounded."""
        found = self.probabilities(rows)
        return {
            "label": self.labels_of(found),
            "probabilities": [[round(float(x), 4) for x in row] for row in found],
        }

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        names, known = self.names, self.predictor.labels
        rows, instances, columns = serve.example_inputs(names, EXAMPLES)
        given = self.task.settings
        threshold = given.get("threshold")
        positive = for_code_span(given.get("positive_label", known[-1]))
        outputs = self.example_outputs(rows)
        predictions = [dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)]
        requests = serve.requests(
            "classifier",
            {"instances": instances},
            {"predictions": predictions},
            {"inputs": columns},
            {"outputs": outputs},
        )
        return README_TEXT.format(
            inputs="\n".join(f"| input `{name}` | string (B,), UTF-8 |" for name in names),
            named="the most probable label"
            if threshold is None
            else f"{positive} from a probability of {threshold:.4g} on",
            num_labels=len(known),
            labels="\n".join(f"{index}. {for_markdown(for_json_line(label))}" for index, label in enumerate(known)),
            length=self.max_sequence_length,
            attention=self.attention.readme(),
            python=self.python(", ".join(f"{name}=tf.constant({columns[name]!r})" for name in names)),
            requests=requests,
        )


def ask(signature, rows: list[tuple[str, ...]]) -> dict[str, np.ndarray]:
    """Returns what a signature answers to tuples of texts."""
    columns = {name: tf.constant(column) for name, column in zip(INPUTS, zip(*rows, strict=True), strict=False)}
    return {name: value.numpy() for name, value in signature(**columns).items()}


ORDER_NOTE = "`order` is 0 for the pair as it stands, 1 for the other way round."

README_TEXT = """The vocabulary, the tokenizer and the labels are inside.

| of the signature `serving_default` | |
|---|---|
{inputs}
| output `label` | string (B,), {named} |
| output `probabilities` | float32 (B, {num_labels}), in the order below |

Labels:

{labels}

An input longer than {length} pieces, special tokens counted, is shortened. An empty string is an input like any other.
A second signature, `tokens`, takes the same inputs and shows what the network reads: `token_ids`, `segment_ids` and
`padding_mask`, (B, L), or (B, 2, L) where a pair is read in both orders.
{attention}
{python}

{requests}
"""
