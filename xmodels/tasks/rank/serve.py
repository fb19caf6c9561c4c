"""A query and candidates in, their order out."""

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.rankings import RankedList
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.rank.task import NEVER

EXAMPLES = (
    ("What did Ann take?", ["An umbrella.", "It rained all day, so Ann took an umbrella.", "The bus."]),
    ("她带了什么？", ["今天下雨，她带了雨伞。", "一条鱼"]),
)
CHECKED = (*EXAMPLES, ("", ["", "saw", "ate"]), ("many words " * 300, ["because", "so " * 40, "then", "no"]))


class Server(serve.Server):
    """One signature, of queries with up to C candidates each."""

    title = "# A ranker of texts exported by xmodels"
    answers = "that ranks candidates"

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
        count, there = tf.shape(candidates)[1], candidates != ""  # (B, C)
        features = self.pairs(tf.repeat(query, count), tf.reshape(candidates, [-1]))
        missing = tf.cast(tf.shape(features["token_ids"])[1] == 0, tf.int32)  # of an empty batch
        features = {name: tf.pad(value, [[0, 0], [0, missing]]) for name, value in features.items()}
        found = self.outputs(features)["scores"]
        scores = tf.where(there, tf.reshape(found, tf.shape(candidates)), NEVER)
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        return {"order": order, "scores": scores, "probabilities": tf.nn.softmax(self.task.scale * scores, axis=1)}

    def signatures(self):
        specs = [
            tf.TensorSpec([None], tf.string, name="query"),
            tf.TensorSpec([None, None], tf.string, name="candidates"),
        ]
        return {"serving_default": (self.answer, specs), **self.attention.signature()}

    def compare(self, served):
        """Works as `serve.Server.compare`; together and one by one."""
        together, difference = ask(served["serving_default"], CHECKED), 0.0
        lists = [RankedList(query, [text for text in texts if text], [], "") for query, texts in CHECKED]
        for row, ((query, texts), expected) in enumerate(zip(CHECKED, self.predictor.predict(lists), strict=True)):
            alone = ask(served["serving_default"], [(query, texts)])
            for found in (together["probabilities"][row], alone["probabilities"][0]):
                wanted = np.zeros(len(found), np.float32)
                wanted[[place for place, text in enumerate(texts) if text]] = expected.probabilities
                difference = max(difference, check_difference(float(np.max(np.abs(found - wanted)))))
        query, (candidate, *_) = EXAMPLES[0]
        features = self.predictor.features([(query, candidate)])
        return max(difference, self.attention.compare(served, (query, candidate), features))

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        found = {
            name: value.tolist() for name, value in ask(tf.function(self.answer, autograph=False), EXAMPLES).items()
        }
        columns = columns_of(EXAMPLES)
        instances, predictions = (
            [dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)] for c in (columns, found)
        )
        requests = serve.requests(
            "ranker", {"instances": instances}, {"predictions": predictions}, {"inputs": columns}, {"outputs": found}
        )
        arguments = ", ".join(f"{name}=tf.constant({value!r})" for name, value in columns.items())
        times = "" if self.task.scale == 1 else f", times {self.task.scale:g}"
        return README_TEXT.format(
            times=times,
            length=self.max_sequence_length,
            attention=self.attention.readme(),
            python=self.python(arguments),
            requests=requests,
        )


def columns_of(rows) -> dict[str, list]:
    """Returns the inputs of the signature; of fewer candidates the last ones are empty."""
    count = max(len(texts) for _, texts in rows)
    return {
        "query": [query for query, _ in rows],
        "candidates": [[*texts, *[""] * (count - len(texts))] for _, texts in rows],
    }


def ask(signature, rows) -> dict[str, np.ndarray]:
    """Returns what a signature answers."""
    return {n: v.numpy() for n, v in signature(**{n: tf.constant(c) for n, c in columns_of(rows).items()}).items()}


README_TEXT = """The vocabulary and the tokenizer are inside.

| of the signature `serving_default` | |
|---|---|
| input `query` | string (B,), UTF-8 |
| input `candidates` | string (B, C); empty strings are no candidates |
| output `order` | int32 (B, C), the places of the candidates, the best first; those that are none come last |
| output `scores` | float32 (B, C), any number, -1e9 where there is no candidate |
| output `probabilities` | float32 (B, C), a softmax over the scores of a list{times} |

Of a query and a candidate together at most {length} pieces are read, special tokens counted; the longer one loses its end.
{attention}
{python}

{requests}
"""
