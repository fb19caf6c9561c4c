"""Strings in, vectors and similarities out. The vocabulary and the tokenizer are part of the graph."""

import tensorflow as tf

from data_pipelines.ops.length_sorting import answer_in_parts
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.comparison import compare_answers
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, TOKENS, Column, Signature, in_columns
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, INPUTS, rows_of
from xmodels.tasks.siamese.losses import cosine


class Server(serve.Server):
    """`serving_default` encodes texts, `similarity` compares pairs."""

    title, model = "# An encoder of texts exported by xmodels", "encoder"
    answers = "that encodes and compares texts"
    examples, checked = rows_of(EXAMPLES, 1), rows_of(CHECKED, 1)

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.max_sequence_length = predictor.max_sequence_length
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.tokens, {"text": tf.string})

    def tokens(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads, (B, L), with L the longest of the batch, at least 1 where the batch is empty."""
        return self.tokenizer.features([text], self.max_sequence_length)

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
        text, pair = (Column(name, "B", "UTF-8") for name in INPUTS)
        similarity = Column("similarity", "B", "the cosine of both vectors")
        return {
            DEFAULT: Signature(self.encode, [text], [Column("vector", "BD")]),
            "similarity": Signature(self.compare_texts, [text, pair], [similarity]),
            TOKENS: Signature(self.tokens, [text], note="It shows what the network reads."),
            **self.attention.signature(),
        }

    def predictions(self, rows):
        return self.predictor.encode([text for (text,) in rows])

    def expected(self, row, prediction, found):
        return {"vector": prediction}

    def attended(self):
        return EXAMPLES[:1], self.predictor.features([EXAMPLES[:1]])

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
        return (
            f"{' and '.join(EXAMPLES)} have a similarity of {similarity:.4f}.\n\n"
            f"A text longer than {self.max_sequence_length} pieces, special tokens counted, is shortened. An empty string is an input "
            "like any other."
        )
