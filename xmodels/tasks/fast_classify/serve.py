"""Strings and a speed in, labels out: early exit inside the graph, where texts that are done leave the batch."""

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.escaping import for_json_line
from xmodels.tasks.base.signatures import Column, Signature
from xmodels.tasks.classify import serve
from xmodels.tasks.fast_classify.answer import check_speed
from xmodels.tasks.fast_classify.early_exit import early_exit

SPEEDS = (0.0, 0.3, 1.0)  # at which the SavedModel is compared with the run
ROUNDING = 1e-4  # an uncertainty this near to the speed decides nothing


class Server(serve.Server):
    """`serving_default` takes as many strings (B,) as an input has texts; `adaptive` also `speed`, a number.

    Args:
        speed: that of `serving_default`; by default the run's.
    """

    title = "# A text classifier with early exit exported by xmodels"
    flags, scored_as = ("speed",), "classify"

    def __init__(self, predictor, serving_ops, speed: float | None = None):
        super().__init__(predictor, serving_ops)
        if not predictor.distilled:
            raise UsageError(
                "--model_dir: the branches of this run have not learnt; it is the first phase of another, or was made with "
                "--distill_epochs=0. Export the run of the second phase."
            )
        self.speed = predictor.speed if speed is None else speed
        check_speed(self.speed)

    def answer(self, text, text_pair=None):
        """Returns label string (B,), probabilities float32 (B, C), layer int32 (B,) from 1, uncertainty float32 (B,)."""
        return self.at_speed(tf.constant(self.speed), text, text_pair)

    def adaptive(self, text: tf.Tensor, speed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the same at a speed, float32 ()."""
        return self.at_speed(speed, text)

    def adaptive_to_pairs(self, text: tf.Tensor, text_pair: tf.Tensor, speed: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.at_speed(speed, text, text_pair)

    def at_speed(self, speed, *texts):
        chosen = early_exit(self.backbone, self.task, self.tokens(*texts), speed)
        answer = self.task.predict(chosen)
        return {
            "label": tf.gather(self.labels, answer["label_ids"]),
            "probabilities": answer["probabilities"],
            "layer": answer["exit_layers"] + 1,
            "uncertainty": tf.clip_by_value(answer["uncertainties"], 0.0, 1.0),
        }

    def columns(self):
        return [
            *super().columns(), Column("layer", "B", "behind which the text left, from 1"), Column("uncertainty", "B")
        ]  # fmt: skip

    def signatures(self):
        found = super().signatures()
        texts = found[serve.DEFAULT].inputs
        method = self.adaptive if len(texts) == 1 else self.adaptive_to_pairs
        speed = Column("speed", (), "for the whole request", tf.float32)
        return {**found, "adaptive": Signature(method, [*texts, speed], self.columns())}

    def network(self, features):
        """Returns what the last layer answers: a network that stands apart lets no text leave early."""
        return {"probabilities": self.predictor.of_teacher(features)["probabilities"]}

    def write(self, numbers, *texts):
        answer = super().write(numbers)
        nothing = tf.zeros_like(numbers["probabilities"][:, 0])
        return {**answer, "layer": tf.cast(nothing, tf.int32) + len(self.task.branches), "uncertainty": nothing}

    def completed(self, numbers):
        found = super().completed(numbers)
        nothing = np.zeros(len(found["label_ids"]), np.float32)
        last = np.full(len(nothing), len(self.task.branches) - 1)
        return {**found, "exit_layers": last, "uncertainties": nothing}

    def parted(self):
        self.speed = self.predictor.speed = 0.0  # of what it is compared with, too
        return super().parted()

    def predictions(self, rows):
        self.predictor.speed = self.speed
        return super().predictions(rows)

    def compare(self, served):
        """Compares as `classify` does, at the default speed; then also at several others."""
        largest = super().compare(served)
        for speed in SPEEDS:
            self.predictor.speed = speed
            predictions = self.predictor.predict(self.checked)
            found = self.compare_signature(served["adaptive"], predictions, self.expected_exit, speed=speed)
            largest = max(largest, found)
        self.predictor.speed = self.speed
        return largest

    def expected_exit(self, row, prediction, found):
        """Returns the layer too; nothing where rounding decides whether a text leaves."""
        if abs(prediction.uncertainty - self.predictor.speed) < ROUNDING:
            return {}
        return {**self.expected(row, prediction, found), "layer": prediction.layer}

    def sections(self):
        columns = self.columns_of(self.examples)
        arguments = ", ".join(f"{name}=tf.constant({values!r})" for name, values in columns.items())
        asked = for_json_line({"signature_name": "adaptive", "inputs": {**columns, "speed": 0.5}})
        return ADAPTIVE.format(speed=self.speed, layers=len(self.task.branches), arguments=arguments, asked=asked)


ADAPTIVE = """## Early exit

A text leaves at the first of {layers} layers whose label is less uncertain than the speed. At speed 0 none leaves before the last
layer, at 1 all leave behind the first. Texts that left are computed no further. `serving_default` has the speed {speed:g}. The
signature `adaptive` takes it:

```python
print(model.signatures["adaptive"]({arguments}, speed=tf.constant(0.5)))
```

By TensorFlow Serving, columns only (a speed is no row):

```json
{asked}
```
"""
