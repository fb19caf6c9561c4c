"""Learning-rate schedules."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("xmodels")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """BERT's schedule (google-research/bert, `optimization.py`).

    peak * step / warmup while step < warmup, then peak * (1 - step / num_steps). The decay starts at step 0, so the
    rate jumps down by peak * warmup / num_steps when the warm-up ends; the first step has rate 0.

    Args:
        peak: the learning rate that both lines aim at.
        warmup: number of warm-up steps; 0 for none.
        num_steps: number of steps after which the rate is 0.
    """

    def __init__(self, peak: float, warmup: int, num_steps: int):
        self.peak, self.warmup, self.num_steps = peak, warmup, num_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        decayed = self.peak * (1.0 - ops.minimum(step / self.num_steps, 1.0))
        if not self.warmup:
            return decayed
        return ops.where(step < self.warmup, self.peak * step / self.warmup, decayed)

    def get_config(self):
        return {"peak": self.peak, "warmup": self.warmup, "num_steps": self.num_steps}
