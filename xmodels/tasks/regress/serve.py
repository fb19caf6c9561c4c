"""Strings in, numbers out. The vocabulary and the tokenizer are part of the graph."""

import numpy as np
import tensorflow as tf

from xmodels.tasks.base import serve as base
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.classify import serve
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, ask


class Server(serve.Server):
    """`serving_default` and `tokens` take as many strings (B,) as an input has texts."""

    title = "# A regression of texts exported by xmodels"
    answers = "that gives numbers to texts"

    def answer(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Returns score float32 (B,) of one or two strings (B,)."""
        return {"score": self.outputs(self.tokens(text, text_pair))["scores"]}

    def compare(self, served):
        """Works as `serve.Server.compare`; token ids must not differ at all, and an empty batch gets no answers."""
        rows = [(text, other)[: len(self.names)] for text, other in zip(CHECKED, reversed(CHECKED), strict=True)]
        expected, found = without_padding(self.predictor.features(rows)), ask(served["tokens"], rows)
        if not all(np.array_equal(found[name], expected[name]) for name in expected):
            raise RuntimeError("The exported model cuts texts into other pieces than the run. Please report this.")
        found = np.array([ask(served["serving_default"], [row])["score"][0] for row in rows])
        expected = np.array(self.predictor.predict(rows), np.float32)
        difference = check_difference(float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1.0))))
        if len(served["serving_default"](**{name: tf.constant([], tf.string) for name in self.names})["score"]):
            raise RuntimeError("The exported model answers an empty batch. Please report this.")
        return max(difference, self.compare_attention(served))

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        names = self.names
        rows, instances, columns = base.example_inputs(names, EXAMPLES)
        found = [round(score, 4) for score in self.predictor.predict(rows)]
        requests = base.requests(
            "regression", {"instances": instances}, {"predictions": found}, {"inputs": columns}, {"outputs": found}
        )
        return README_TEXT.format(
            inputs="\n".join(f"| input `{name}` | string (B,), UTF-8 |" for name in names),
            length=self.max_sequence_length,
            attention=self.attention.readme(),
            python=self.python(", ".join(f"{name}=tf.constant({columns[name]!r})" for name in names)),
            requests=requests,
        )


README_TEXT = """The vocabulary and the tokenizer are inside.

| of the signature `serving_default` | |
|---|---|
{inputs}
| output `score` | float32 (B,) |

An input longer than {length} pieces, special tokens counted, is shortened. An empty string is an input like any other.
A second signature, `tokens`, takes the same inputs and shows what the network reads: `token_ids`, `segment_ids` and
`padding_mask`, (B, L).
{attention}
{python}

{requests}
"""
