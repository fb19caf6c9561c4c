"""Arrays in, numbers out."""

import numpy as np
import tensorflow as tf

from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.classify_sets.serve import SetServer


class Server(SetServer):
    """Numbers of sets."""

    title = "# A regression of sets of vectors exported by xmodels"

    def answer(self, points: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns score float32 (B,)."""
        return {"score": self.predicted(points, sizes)["scores"]}

    def compare(self, served):
        expected = np.array(self.predictor.predict(self.examples()), np.float32)
        difference = np.abs(self.asked(served)["score"] - expected) / np.maximum(np.abs(expected), 1.0)
        return check_difference(float(np.max(difference)))

    def example_outputs(self) -> dict[str, list]:
        """Returns what `serving_default` answers to the examples, rounded."""
        return {"score": [round(score, 4) for score in self.predictor.predict(self.examples())]}

    def output_rows(self) -> str:
        """Returns the rows of the README about the outputs."""
        return "| output `score` | float32 (B,) |"
