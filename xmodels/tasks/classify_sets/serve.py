"""Arrays in, labels and probabilities out. The labels are part of the graph."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.vector_sets import pad_sets
from xmodels.tasks.base import serve
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature

SIZES = (1, 2, 5)  # of the sets that are compared


class SetServer(serve.Server):
    """`serving_default` takes `points` float32 (B, L, D) and `sizes` int32 (B,), the vectors that count of each set.

    Subclasses define `answer` and `columns`.
    """

    answers, model, inside = "of arrays", "sets", "It reads arrays; nothing is tokenized."

    @property
    def examples(self):
        generator = np.random.default_rng(0)
        return [generator.normal(size=(size, self.predictor.width)).round(1).astype(np.float32) for size in SIZES]

    checked = examples

    def predict_sets(self, points: tf.Tensor, sizes: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns the predictions of the task."""
        mask = tf.sequence_mask(sizes, tf.shape(points)[1])  # (B, L)
        outputs = self.task.forward(self.backbone, {"points": points, "padding_mask": mask}, training=False)
        return self.task.predict(outputs)

    def signatures(self):
        inputs = [
            Column("points", ("B", "L", self.predictor.width), "the vectors of B sets, each padded to the same number", tf.float32),
            Column("sizes", "B", "how many vectors of each set count; 1 at least", tf.int32),
        ]  # fmt: skip
        return {DEFAULT: Signature(self.answer, inputs, self.columns())}

    def columns_of(self, rows):
        """Returns sets that are padded with numbers which must not count."""
        sets = pad_sets(rows)
        points = np.where(sets["padding_mask"][..., None], sets["points"].astype(float).round(1), 7.0)
        return {"points": points.tolist(), "sizes": [len(each) for each in rows]}

    def notes(self):
        return "The order of the vectors of a set does not matter, and what stands behind its size is not read."


class Server(SetServer):
    """Labels of sets."""

    title = "# A classifier of sets of vectors exported by xmodels"

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)

    def answer(self, points: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns label string (B,) and probabilities float32 (B, C)."""
        found = self.predict_sets(points, sizes)
        return {"label": tf.gather(self.labels, found["label_ids"]), "probabilities": found["probabilities"]}

    def columns(self):
        return [
            Column("label", "B", "the most probable label"),
            Column("probabilities", "BC", "in the order of the labels"),
        ]

    def expected(self, row, prediction, found):
        return {"label": prediction.label, "probabilities": list(prediction.probabilities.values())}
