"""Strings in, all labels that suit them out. The vocabulary, the tokenizer, labels and thresholds are part of the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.escaping import for_json_line, for_markdown
from xmodels.tasks.base import serve as base
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.classify import serve
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, ask

ROUNDING = 1e-4  # probabilities this near to their threshold are not compared


class Server(serve.Server):
    """`serving_default` and `tokens` take as many strings (B,) as an input has texts."""

    title = "# A classifier of texts with several labels exported by xmodels"

    def answer(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """Returns probabilities float32 (B, C), and chosen bool (B, C), of one or two strings (B,)."""
        probabilities = self.outputs(self.tokens(text, text_pair))["probabilities"]
        return {
            "probabilities": probabilities,
            "chosen": probabilities >= tf.constant(self.predictor.thresholds, tf.float32),
            "labels": tf.tile(self.labels[None], [tf.shape(probabilities)[0], 1]),
        }

    def compare(self, served):
        """Works as `serve.Server.compare`; token ids must not differ at all, and an empty batch gets no answers."""
        rows = [(text, other)[: len(self.names)] for text, other in zip(CHECKED, reversed(CHECKED), strict=True)]
        expected, found = without_padding(self.predictor.features(rows)), ask(served["tokens"], rows)
        if not all(np.array_equal(found[name], expected[name]) for name in expected):
            raise RuntimeError("The exported model cuts texts into other pieces than the run. Please report this.")
        found, wanted = ask(served["serving_default"], rows), self.probabilities(rows)
        chosen, thresholds = wanted >= np.array(self.predictor.thresholds), np.array(self.predictor.thresholds)
        if ((found["chosen"] != chosen) & (np.abs(wanted - thresholds) > ROUNDING)).any():
            raise RuntimeError("The exported model chooses other labels than the run. Please report this.")
        if len(served["serving_default"](**{name: tf.constant([], tf.string) for name in self.names})["chosen"]):
            raise RuntimeError("The exported model answers an empty batch. Please report this.")
        difference = check_difference(float(np.abs(found["probabilities"] - wanted).max()))
        return max(difference, self.compare_attention(served))

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        names, known = self.names, self.predictor.labels
        rows, instances, columns = base.example_inputs(names, EXAMPLES)
        found = self.probabilities(rows)
        outputs = {
            "probabilities": [[round(float(x), 4) for x in row] for row in found],
            "chosen": (found >= np.array(self.predictor.thresholds)).tolist(),
            "labels": [list(known)] * len(rows),
        }
        predictions = [dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)]
        labels = [
            f"{number}. {for_markdown(for_json_line(label))}, chosen from {threshold:.4g}"
            for number, (label, threshold) in enumerate(zip(known, self.predictor.thresholds, strict=True))
        ]
        requests = base.requests(
            "labels", {"instances": instances}, {"predictions": predictions}, {"inputs": columns}, {"outputs": outputs}
        )
        return README_TEXT.format(
            inputs="\n".join(f"| input `{name}` | string (B,), UTF-8 |" for name in names),
            num_labels=len(known),
            labels="\n".join(labels),
            length=self.max_sequence_length,
            attention=self.attention.readme(),
            python=self.python(", ".join(f"{name}=tf.constant({columns[name]!r})" for name in names)),
            requests=requests,
        )


README_TEXT = """The vocabulary, the tokenizer, the labels and their thresholds are inside.

| of the signature `serving_default` | |
|---|---|
{inputs}
| output `probabilities` | float32 (B, {num_labels}), in the order below |
| output `chosen` | bool (B, {num_labels}), whether a label suits the text: its probability reaches its threshold |
| output `labels` | string (B, {num_labels}), the names, the same for each text |

Labels:

{labels}

An input longer than {length} pieces, special tokens counted, is shortened. An empty string is an input like any other.
A second signature, `tokens`, takes the same inputs and shows what the network reads: `token_ids`, `segment_ids` and
`padding_mask`, (B, L).
{attention}
{python}

{requests}
"""
