"""Arrays in, numbers out."""

import tensorflow as tf

from xmodels.tasks.base.signatures import Column
from xmodels.tasks.classify_sets.serve import SetServer


class Server(SetServer):
    """Numbers of sets."""

    title = "# A regression of sets of vectors exported by xmodels"

    def answer(self, points: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns score float32 (B,)."""
        return {"score": self.predict_sets(points, sizes)["scores"]}

    def columns(self):
        return [Column("score", "B")]

    def expected(self, row, prediction, found):
        return {"score": prediction}
