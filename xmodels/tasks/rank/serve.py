"""A query and candidates in, their order out."""

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.rankings import RankedList
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.apart import Parted
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature
from xmodels.tasks.rank.task import NEVER

EXAMPLES = (
    ("What did Ann take?", ["An umbrella.", "It rained all day, so Ann took an umbrella.", "The bus."]),
    ("她带了什么？", ["今天下雨，她带了雨伞。", "一条鱼"]),
)


class Server(serve.Server):
    """One signature, of queries with up to C candidates each."""

    title, model = "# A ranker of texts exported by xmodels", "ranker"
    answers, numbers = "that ranks candidates", ("scores",)
    names, examples = ("query", "candidates"), EXAMPLES
    checked = (*EXAMPLES, ("", ["", "saw", "ate"]), ("many words " * 300, ["because", "so " * 40, "then", "no"]))

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, predictor.task.reading.frame)
        self.max_sequence_length = predictor.max_sequence_length
        inputs = {"query": tf.string, "candidate": tf.string}
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.pairs, inputs)

    def pairs(self, query: tf.Tensor, candidate: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of queries and a candidate of each, strings (B,): (B, L)."""
        return self.tokenizer.features([query, candidate], self.max_sequence_length)

    def answer(self, query: tf.Tensor, candidates: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns order int32 (B, C), scores and probabilities float32 (B, C), of strings (B,) and (B, C); an empty candidate
        is none."""
        return self.write(self.outputs(self.read(query, candidates)), query, candidates)

    def read(self, query: tf.Tensor, candidates: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of each query with each of its candidates, (B C, L)."""
        return self.pairs(tf.repeat(query, tf.shape(candidates)[1]), tf.reshape(candidates, [-1]))

    def write(self, numbers: dict[str, tf.Tensor], query: tf.Tensor, candidates: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of `answer`, of scores (B C,)."""
        there = candidates != ""  # (B, C)
        scores = tf.where(there, tf.reshape(numbers["scores"], tf.shape(candidates)), NEVER)
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        return {"order": order, "scores": scores, "probabilities": tf.nn.softmax(self.task.scale * scores, axis=1)}

    def signatures(self):
        return {DEFAULT: Signature(self.answer, *self.columns()), **self.attention.signature()}

    def parted(self):
        return {DEFAULT: Parted(self.read, self.write, *self.columns())}

    def columns(self) -> tuple[list[Column], list[Column]]:
        """Returns the inputs and the outputs of `answer`."""
        inputs = [Column("query", "B", "UTF-8"), Column("candidates", "BC", "empty strings are no candidates")]
        times = "" if self.task.scale == 1 else f", times {self.task.scale:g}"
        outputs = [
            Column("order", "BC", "the places of the candidates, the best first; those that are none come last"),
            Column("scores", "BC", "any number, -1e9 where there is no candidate"),
            Column("probabilities", "BC", f"a softmax over the scores of a list{times}"),
        ]
        return inputs, outputs

    def served_rows(self, inputs):
        return [(each.query, list(each.candidates)) for each in inputs]

    def named(self, prediction):
        return prediction.order[0]

    def predictions(self, rows):
        return self.predictor.predict([RankedList(query, list(filter(None, texts)), [], "") for query, texts in rows])

    def expected(self, row, prediction, found):
        wanted = np.zeros(len(row[1]), np.float32)
        wanted[[place for place, text in enumerate(row[1]) if text]] = prediction.probabilities
        return {"probabilities": wanted}

    def attention_example(self):
        query, (candidate, *_) = EXAMPLES[0]
        return (query, candidate), self.predictor.features([(query, candidate)])

    def notes(self):
        return (
            f"Of a query and a candidate together at most {self.max_sequence_length} pieces are read, special tokens counted; the "
            "longer one loses its end."
        )
