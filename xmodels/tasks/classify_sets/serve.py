"""Arrays in, labels and probabilities out. The labels are part of the graph."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.vector_sets import padded
from data_pipelines.escaping import for_json_line, for_markdown
from xmodels.tasks.base import serve
from xmodels.tasks.base.serve import check_difference

SIZES = (1, 2, 5)  # of the sets that are compared


class SetServer(serve.Server):
    """`serving_default` takes `points` float32 (B, L, D) and `sizes` int32 (B,), the vectors that count of each set."""

    answers = "of arrays"

    def predicted(self, points: tf.Tensor, sizes: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns the predictions of the task."""
        mask = tf.sequence_mask(sizes, tf.shape(points)[1])  # (B, L)
        outputs = self.task.forward(self.backbone, {"points": points, "padding_mask": mask}, training=False)
        return self.task.predict(outputs)

    def signatures(self):
        specs = [
            tf.TensorSpec([None, None, self.predictor.width], tf.float32, name="points"),
            tf.TensorSpec([None], tf.int32, name="sizes"),
        ]
        return {"serving_default": (self.answer, specs)}

    def examples(self) -> list[np.ndarray]:
        """Returns sets of several sizes."""
        generator = np.random.default_rng(0)
        return [generator.normal(size=(size, self.predictor.width)).round(1).astype(np.float32) for size in SIZES]

    def asked(self, served) -> dict[str, np.ndarray]:
        """Returns what the SavedModel answers to the examples, which are padded with numbers that must not count."""
        sets = padded(self.examples())
        points = np.where(sets["padding_mask"][..., None], sets["points"], np.float32(7.0))
        found = served["serving_default"](points=tf.constant(points), sizes=tf.constant(SIZES, tf.int32))
        return {name: value.numpy() for name, value in found.items()}

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        sets = padded(self.examples())
        columns = {"points": sets["points"].astype(float).round(1).tolist(), "sizes": list(SIZES)}
        instances = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        outputs = self.example_outputs()
        names = list(outputs)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        predictions = rows if names[1:] else outputs[names[0]]
        requests = serve.requests(
            "sets", {"instances": instances}, {"predictions": predictions}, {"inputs": columns},
            {"outputs": outputs if names[1:] else outputs[names[0]]},
        )  # fmt: skip
        return README_TEXT.format(
            width=self.predictor.width,
            outputs=self.output_rows(),
            python=self.python(f"points=tf.constant({columns['points']}), sizes=tf.constant({columns['sizes']})"),
            requests=requests,
        )


class Server(SetServer):
    """Labels of sets."""

    title = "# A classifier of sets of vectors exported by xmodels"

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)

    def answer(self, points: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns label string (B,) and probabilities float32 (B, C)."""
        found = self.predicted(points, sizes)
        return {"label": tf.gather(self.labels, found["label_ids"]), "probabilities": found["probabilities"]}

    def compare(self, served):
        expected, found = self.predictor.predict(self.examples()), self.asked(served)
        wanted = np.array([list(each.probabilities.values()) for each in expected], np.float32)
        difference = check_difference(float(np.max(np.abs(found["probabilities"] - wanted))))
        if [label.decode() for label in found["label"]] != [each.label for each in expected]:
            raise RuntimeError("The exported model names other labels than the run. Please report this.")
        return difference

    def example_outputs(self) -> dict[str, list]:
        """Returns what `serving_default` answers to the examples, with numbers rounded."""
        found = self.predictor.predict(self.examples())
        rounded = [[round(p, 4) for p in each.probabilities.values()] for each in found]
        return {"label": [each.label for each in found], "probabilities": rounded}

    def output_rows(self) -> str:
        """Returns the rows of the README about the outputs."""
        labels = ", ".join(for_markdown(for_json_line(label)) for label in self.predictor.labels)
        return (
            "| output `label` | string (B,), the most probable label |\n"
            f"| output `probabilities` | float32 (B, {len(self.predictor.labels)}), of {labels} |"
        )


README_TEXT = """It reads arrays; nothing is tokenized.

| of the signature `serving_default` | |
|---|---|
| input `points` | float32 (B, L, {width}), the vectors of B sets, each padded to the same number |
| input `sizes` | int32 (B,), how many vectors of each set count; 1 at least |
{outputs}

The order of the vectors of a set does not matter, and what stands behind its size is not read.

{python}

{requests}
"""
