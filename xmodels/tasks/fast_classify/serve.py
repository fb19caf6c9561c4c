"""Strings and a speed in, labels out: early exit inside the graph, where texts that are done leave the batch."""

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from xmodels.tasks.base.serve import check_difference
from xmodels.tasks.classify import serve
from xmodels.tasks.classify.serve import CHECKED, EXAMPLES, INPUTS
from xmodels.tasks.fast_classify.answer import check_speed
from xmodels.tasks.fast_classify.early_exit import early_exit

SPEEDS = (0.0, 0.3, 1.0)  # at which the SavedModel is compared with the run


class Server(serve.Server):
    """`serving_default` takes as many strings (B,) as an input has texts; `adaptive` also `speed`, a number.

    Args:
        speed: that of `serving_default`; by default the run's.
    """

    title = "# A text classifier with early exit exported by xmodels"
    flags = ("speed",)

    def __init__(self, predictor, serving_ops, speed: float | None = None):
        super().__init__(predictor, serving_ops)
        if not predictor.distilled:
            raise UsageError(
                "--model_dir: the branches of this run have not learnt; it is the first phase of another, or was made with "
                "--distill_epochs=0. Export the run of the second phase."
            )
        self.speed = predictor.speed if speed is None else speed
        check_speed(self.speed)

    def answer(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
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

    def signatures(self):
        specs = [tf.TensorSpec([None], tf.string, name=name) for name in self.names]
        method = self.adaptive if len(specs) == 1 else self.adaptive_to_pairs
        return {**super().signatures(), "adaptive": (method, [*specs, tf.TensorSpec([], tf.float32, name="speed")])}

    def compare(self, served):
        """Compares as `classify` does, at the default speed; then all texts together at several speeds."""
        self.predictor.speed = self.speed
        differences = [super().compare(served)]
        rows = [(text, other)[: len(self.names)] for text, other in zip(CHECKED, reversed(CHECKED), strict=True)]
        columns = {name: tf.constant(column) for name, column in zip(INPUTS, zip(*rows, strict=True), strict=False)}
        for speed in SPEEDS:
            found = {n: x.numpy() for n, x in served["adaptive"](**columns, speed=tf.constant(speed)).items()}
            self.predictor.speed = speed
            expected = self.predictor.predict(rows)
            layers, uncertainties = ([getattr(each, n) for each in expected] for n in ("layer", "uncertainty"))
            near = np.abs(np.array(uncertainties) - speed) < 1e-4  # rounding decides about these
            if ((found["layer"] != layers) & ~near).any():
                raise RuntimeError(
                    "Texts leave the exported model behind other layers than the run. Please report this."
                )
            wanted = np.array([list(each.probabilities.values()) for each in expected])
            differences.append(check_difference(float(np.abs(found["probabilities"] - wanted)[~near].max(initial=0.0))))
        self.predictor.speed = self.speed
        return max(differences)

    def example_outputs(self, rows):
        self.predictor.speed = self.speed
        found = self.predictor.predict(rows)
        return {
            "label": [each.label for each in found],
            "probabilities": [[round(x, 4) for x in each.probabilities.values()] for each in found],
            "layer": [each.layer for each in found],
            "uncertainty": [round(each.uncertainty, 4) for each in found],
        }

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        columns = {n: list(EXAMPLES if i == 0 else EXAMPLES[::-1]) for i, n in enumerate(self.names)}
        arguments = ", ".join(f"{name}=tf.constant({values!r})" for name, values in columns.items())
        asked = {"signature_name": "adaptive", "inputs": {**columns, "speed": 0.5}}
        return super().readme() + ADAPTIVE.format(
            speed=self.speed, layers=len(self.task.branches), arguments=arguments, asked=serve.for_json_line(asked)
        )


ADAPTIVE = """
## Early exit

A text leaves at the first of {layers} layers whose label is less uncertain than the speed. At speed 0 none leaves before the last
layer, at 1 all leave behind the first. Texts that left are computed no further. Both signatures also give `layer`, int32 (B,), behind
which each text left, from 1, and `uncertainty`, float32 (B,).

`serving_default` has the speed {speed:g}. The signature `adaptive` also takes `speed`, one float32 for the whole request:

```python
print(model.signatures["adaptive"]({arguments}, speed=tf.constant(0.5)))
```

By TensorFlow Serving, columns only (a speed is no row):

```json
{asked}
```
"""
