"""Strings in, vectors and similarities out. The vocabulary and the tokenizer are part of the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.length_sorting import answer_in_parts
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, ask
from xmodels.tasks.siamese.losses import cosine


class Server(serve.Server):
    """`serving_default` encodes texts, `similarity` compares pairs."""

    title = "# An encoder of texts exported by xmodels"
    answers = "that encodes and compares texts"

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.max_sequence_length = predictor.max_sequence_length
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.tokens, {"text": tf.string})

    def tokens(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads, (B, L), with L the longest of the batch, at least 1 where the batch is empty."""
        features = self.tokenizer.features([text], self.max_sequence_length)
        missing = tf.cast(tf.shape(features["token_ids"])[1] == 0, tf.int32)
        return {name: tf.pad(value, [[0, 0], [0, missing]]) for name, value in features.items()}

    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns vector float32 (B, D) of strings (B,)."""
        return {"vector": answer_in_parts(self.vectors, self.tokens(text))["vectors"]}

    def vectors(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"vectors": self.task.forward(self.backbone, features, training=False)["vectors"]}

    def compare_texts(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns similarity float32 (B,) of two strings (B,)."""
        vectors = self.encode(tf.concat([text, text_pair], axis=0))["vector"]
        first, second = tf.split(vectors, 2)
        return {"similarity": cosine(first, second)}

    def signatures(self):
        text, pair = (tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair"))
        return {
            "serving_default": (self.encode, [text]),
            "similarity": (self.compare_texts, [text, pair]),
            "tokens": (self.tokens, [text]),
            **self.attention.signature(),
        }

    def compare(self, served):
        """Works as `serve.Server.compare`; token ids must not differ at all, and an empty batch gets no answers."""
        predictor = self.predictor
        expected, found = (
            without_padding(predictor.features([(text,) for text in CHECKED])),
            ask(served["tokens"], [(text,) for text in CHECKED]),
        )
        if not all(np.array_equal(found[name], expected[name]) for name in expected):
            raise RuntimeError("The exported model cuts texts into other pieces than the run. Please report this.")
        vectors = predictor.encode(CHECKED)  # one by one below: each has a length of its own
        alone = np.concatenate([ask(served["serving_default"], [(text,)])["vector"] for text in CHECKED])
        together = ask(served["serving_default"], [(text,) for text in CHECKED])["vector"]
        size = max(1.0, float(np.max(np.abs(vectors))))
        difference = max(float(np.max(np.abs(each - vectors))) / size for each in (alone, together))
        pairs = list(zip(CHECKED, reversed(CHECKED), strict=True))
        similarities = np.array([each.similarity for each in predictor.predict(pairs)], np.float32)
        difference = max(
            difference, float(np.max(np.abs(ask(served["similarity"], pairs)["similarity"] - similarities)))
        )
        empty = tf.constant([], tf.string)
        if len(served["serving_default"](text=empty)["vector"]):
            raise RuntimeError("The exported model answers an empty batch. Please report this.")
        row = EXAMPLES[:1]
        attention = self.attention.compare(served, row, self.predictor.features([row]))
        return max(check_difference(difference), attention)

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        texts = list(EXAMPLES)
        vectors = [[round(float(number), 4) for number in row] for row in self.predictor.encode(texts)]
        similarity = round(self.predictor.predict([tuple(texts)])[0].similarity, 4)
        requests = serve.requests(
            "encoder", {"instances": texts}, {"predictions": vectors}, {"inputs": {"text": texts}}, {"outputs": vectors}
        )
        return README_TEXT.format(
            length=self.max_sequence_length,
            width=len(vectors[0]),
            attention=self.attention.readme(),
            python=self.python(f"text=tf.constant({texts!r})"),
            first=texts[0], second=texts[1], similarity=similarity,
            requests=requests,
        )  # fmt: skip


README_TEXT = """The vocabulary and the tokenizer are inside.

| of the signature `serving_default` | |
|---|---|
| input `text` | string (B,), UTF-8 |
| output `vector` | float32 (B, {width}) |

| of the signature `similarity` | |
|---|---|
| inputs `text`, `text_pair` | string (B,), UTF-8 |
| output `similarity` | float32 (B,), the cosine of both vectors |

{first} and {second} have a similarity of {similarity}.

A text longer than {length} pieces, special tokens counted, is shortened. An empty string is an input like any other.
A third signature, `tokens`, takes `text` and shows what the network reads: `token_ids`, `segment_ids` and
`padding_mask`, (B, L).
{attention}
{python}

{requests}
"""
