"""Strings in, vectors and similarities out. The vocabulary and the tokenizer are part of the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.length_sorting import answer_in_parts
from xmodels.tasks.base.apart import Parted
from xmodels.tasks.base.comparison import compare_answers
from xmodels.tasks.base.signatures import Column, Signature, in_columns
from xmodels.tasks.classify import serve
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, INPUTS, rows_of
from xmodels.tasks.siamese.losses import cosine


class Server(serve.TextServer):
    """`serving_default` encodes texts, `similarity` compares pairs."""

    title, model = "# An encoder of texts exported by xmodels", "encoder"
    answers, names = "that encodes and compares texts", INPUTS[:1]
    numbers = ("vectors",)

    def answer(self, text):
        """Returns vector float32 (B, D) of strings (B,)."""
        return {"vector": answer_in_parts(self.vectors, self.tokens(text))["vectors"]}

    def write(self, numbers, *texts):
        return {"vector": numbers["vectors"]}

    def columns(self):
        return [Column("vector", "BD")]

    def vectors(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"vectors": self.task.forward(self.backbone, features, training=False)["vectors"]}

    def compare_texts(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns similarity float32 (B,) of two strings (B,)."""
        vectors = self.answer(tf.concat([text, text_pair], axis=0))["vector"]
        first, second = tf.split(vectors, 2)
        return {"similarity": cosine(first, second)}

    def signatures(self):
        texts = [Column(name, "B", "UTF-8") for name in INPUTS]
        return {**super().signatures(), "similarity": Signature(self.compare_texts, texts, [SIMILARITY])}

    def parted(self):
        texts = [Column(name, "B", "UTF-8") for name in INPUTS]

        def read(text, text_pair):
            return self.tokens(tf.concat([text, text_pair], axis=0))

        def write(numbers, text, text_pair):
            return {"similarity": cosine(*tf.split(numbers["vectors"], 2))}

        return {**super().parted(), "similarity": Parted(read, write, texts, [SIMILARITY])}

    def network(self, features):
        return self.vectors(features)

    def ask_network(self, network, features):
        rows = features["token_ids"].shape[:-1]  # (B,), or of pairs (B, 2)
        flat = {name: value.reshape(-1, value.shape[-1]) for name, value in features.items()}
        return {"vectors": network(flat)["vectors"].reshape(*rows, -1)}

    def completed(self, numbers):
        vectors = numbers["vectors"]
        if vectors.ndim == 2:
            return dict(numbers)
        first, second = vectors[:, 0], vectors[:, 1]
        found = {"vectors": vectors, "scores": np.asarray(cosine(first, second))}
        if self.predictor.labels:
            logits = self.task.head(self.task.compared(tf.constant(first), tf.constant(second)))
            found["probabilities"] = tf.nn.softmax(logits).numpy()
        return found

    def shares(self, numbers, features):
        found = self.completed(numbers)
        return {name: found[name] for name in ("scores",) if name in found} or numbers

    def served_rows(self, inputs):
        return [(text,) for each in inputs for text in each]

    def from_served(self, found, inputs):
        vectors = found["vector"]
        return {
            "vectors": vectors if len(vectors) == len(inputs) else vectors.reshape(len(inputs), -1, vectors.shape[-1])
        }

    def named(self, prediction):
        return getattr(prediction, "match", None)

    def predictions(self, rows):
        return self.predictor.encode([text for (text,) in rows])

    def expected(self, row, prediction, found):
        return {"vector": prediction}

    def compare(self, served):
        """Compares vectors, and the similarities of pairs."""
        pairs = rows_of(CHECKED, 2)
        wanted = self.predictor.predict(pairs)
        similarity = compare_answers(
            served["similarity"], lambda rows: in_columns(INPUTS, rows), pairs,
            lambda place, found: {"similarity": wanted[place].similarity},
        )  # fmt: skip
        return max(super().compare(served), similarity)

    def notes(self):
        similarity = self.predictor.predict([EXAMPLES])[0].similarity
        return f"{' and '.join(EXAMPLES)} have a similarity of {similarity:.4f}.\n\n{super().notes()}"


SIMILARITY = Column("similarity", "B", "the cosine of both vectors")
