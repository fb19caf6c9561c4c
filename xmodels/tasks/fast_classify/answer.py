"""Labels of texts, or of pairs, with the layer behind which each left and how uncertain its label was."""

import dataclasses

import keras
import numpy as np

from data_pipelines.errors import UsageError
from xmodels.layers.exits import EXIT, SELECT
from xmodels.tasks.base.answer import compile_answer
from xmodels.tasks.classify import answer

DEFAULT_SPEED = 0.1  # at which the paper loses nothing
FULL = "full"  # the teacher alone


@dataclasses.dataclass(frozen=True)
class Prediction(answer.Prediction):
    """Also the number of the layer, from 1, behind which the text left, and the uncertainty of its label there, from 0 to 1."""

    layer: int
    uncertainty: float


class Predictor(answer.Predictor):
    """Labels inputs at a speed.

    Attributes:
        speed: texts leave whose uncertainty is below it: nobody at 0, all behind the first layer at 1.
        exit_mode: `exit`: those that leave are computed no further; needs TensorFlow. `select`: all layers are computed, and then
            chosen from. The answers are equal.
        distilled: whether the students have learnt. Where not, as in a folder of the first phase, the speed is 0.
    """

    flags = ("speed", "exit_mode")
    table = (*answer.Predictor.table, "layer", "uncertainty")

    def prepare(self):
        self.distilled = bool(self.description.settings.get("distilled"))
        self.speed = DEFAULT_SPEED if self.distilled else 0.0
        self.exit_mode = EXIT if keras.backend.backend() == "tensorflow" else SELECT

    def __init__(self, run, columns=None):
        self.description = run.description
        super().__init__(run, columns)
        self.modes = {SELECT: self._answer, FULL: compile_answer(self.of_teacher)}
        if keras.backend.backend() == "tensorflow":
            self.modes[EXIT] = compile_answer(self.at_exits)
        self._answer = self.asked

    def asked(self, batch) -> dict:
        """Returns what the network answers at the speed and in the mode that hold."""
        return self.modes[self.exit_mode](batch | {"speed": np.float32(self.speed)})

    def adjust(self, **values):
        super().adjust(**values)
        check_speed(self.speed)
        if self.exit_mode not in self.modes:
            raise UsageError(f"--exit_mode={self.exit_mode}: expected one of {', '.join(self.modes)} on this backend.")
        if self.speed and not self.distilled:
            raise UsageError(
                f"--speed={self.speed:g}: the branches of this run have not learnt; it is the first phase of another, or was "
                "made with --distill_epochs=0. Take --speed=0, or finetune it with --distill_epochs."
            )

    def answer(self, asked):
        """Returns the answers at the speed asked for; all layers are computed."""
        chosen = self.task.select(self.task.exits(self.backbone, asked), asked.get("speed", 0.0))
        return self.task.predict(chosen)

    def at_exits(self, asked):
        """Returns texts that leave are computed no further."""
        from xmodels.tasks.fast_classify.early_exit import early_exit

        return self.task.predict(early_exit(self.backbone, self.task, asked, asked["speed"]))

    def of_teacher(self, asked):
        """Returns the network without students, against which speed is measured."""
        found = self.task.predict(self.task.forward(self.backbone, asked, training=False))
        rows = keras.ops.zeros_like(found["label_ids"])
        uncertainties = keras.ops.zeros_like(found["probabilities"][:, 0])
        return {**found, "exit_layers": rows + len(self.task.branches) - 1, "uncertainties": uncertainties}

    def predictions(self, inputs, features, outputs):
        rows = zip(
            super().predictions(inputs, features, outputs),
            outputs["exit_layers"].tolist(),
            outputs["uncertainties"].tolist(),
            strict=True,
        )
        return [
            Prediction(each.label, each.probabilities, layer + 1, min(max(value, 0.0), 1.0))
            for each, layer, value in rows
        ]

    def describe_prediction(self, asked, prediction):
        yield from super().describe_prediction(asked, prediction)
        yield f"layer: {prediction.layer} of {len(self.task.branches)}, uncertainty {prediction.uncertainty:.4f}"

    def line(self, asked, prediction):
        label, probability, texts = super().line(asked, prediction).split("\t", 2)
        return f"{label}\t{probability}\tlayer {prediction.layer}\t{texts}"


def check_speed(speed: float) -> None:
    """Raises a UsageError where a speed is out of bounds."""
    if not 0.0 <= speed <= 1.0:
        raise UsageError(
            f"--speed={speed:g}: must lie between 0, where all layers answer, and 1, where the first one does."
        )
