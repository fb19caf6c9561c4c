"""Learning-rate schedules by name. Decays are those of Keras, except where the original code differs.

`step` is the number of updates done: the first update has step 0. docs/optimizers.md has the formulas and a picture.
"""

import dataclasses

import keras
from keras import ops
from keras.optimizers.schedules import CosineDecay, LearningRateSchedule, PolynomialDecay

from xmodels.training.schedules.kinds import SCHEDULES


def _float(step):
    return ops.cast(step, "float32")


@dataclasses.dataclass(eq=False)
class _Schedule(LearningRateSchedule):
    """A schedule whose configuration is its fields.

    Attributes:
        peak: the highest learning rate.
        warmup: number of warmup steps; 0 for none.
    """

    peak: float
    warmup: int

    def get_config(self):
        return dataclasses.asdict(self)


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class WarmupLinearDecay(_Schedule):
    """BERT's schedule (google-research/bert, `optimization.py`).

    peak * step / warmup while step < warmup, then peak * (1 - step / num_steps). The decay is counted from step 0, so the
    rate drops by peak * warmup / num_steps at the end of the warmup. The rate of the first step is 0.
    """

    num_steps: int

    def __call__(self, step):
        step = _float(step)
        decayed = self.peak * (1.0 - ops.minimum(step / self.num_steps, 1.0))
        if not self.warmup:
            return decayed
        return ops.where(step < self.warmup, self.peak * step / self.warmup, decayed)


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class ProductDecay(_Schedule):
    """GPT's fine-tuning schedule (openai/finetune-transformer-lm): warmup times decay, peak * min(x / w, 1) * (1 - x).

    x = step / num_steps and w = warmup / num_steps, so the decay also applies during the warmup, and the rate does not jump.
    """

    num_steps: int

    def __call__(self, step):
        step = _float(step)
        rising = ops.minimum(step / self.warmup, 1.0) if self.warmup else 1.0
        return self.peak * rising * (1.0 - ops.minimum(step / self.num_steps, 1.0))


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class Noam(_Schedule):
    """The Transformer's schedule (Vaswani et al., 2017, section 5.3): peak * min(t / warmup, sqrt(warmup / t)).

    t = step + 1, as in the paper, so the rate of the first step is above 0. `noam_peak` returns the paper's peak.
    """

    def __call__(self, step):
        t, warmup = _float(step) + 1.0, max(1, self.warmup)
        return self.peak * ops.minimum(t / warmup, ops.sqrt(warmup / t))


def noam_peak(hidden_dim: int, warmup: int, scale: float = 1.0) -> float:
    """Returns the peak of scale * hidden_dim^-0.5 * min(t^-0.5, t * warmup^-1.5), which is at t = warmup."""
    return scale * (hidden_dim * warmup) ** -0.5


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class InverseSquareRoot(_Schedule):
    """fairseq's `inverse_sqrt`: linear from `initial` to the peak, then peak * sqrt(warmup / step)."""

    initial: float = 1e-7

    def __call__(self, step):
        step, warmup = _float(step), max(1, self.warmup)
        rising = self.initial + step * (self.peak - self.initial) / warmup
        return ops.where(step < warmup, rising, self.peak * ops.sqrt(warmup / ops.maximum(step, 1.0)))


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class Plateau(_Schedule):
    """T5's pretraining schedule (Raffel et al., 2020, section 3.1.2): peak * sqrt(warmup / max(step, warmup)).

    The rate does not rise: it stays at the peak for `warmup` steps. In the paper warmup = 10,000 and peak = 0.01.
    """

    def __call__(self, step):
        warmup = max(1, self.warmup)
        return self.peak * ops.sqrt(warmup / ops.maximum(_float(step), float(warmup)))


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class RootDecay(_Schedule):
    """The schedule of Cross-View Training (tensorflow/models, `cvt_text`): peak * min(1, step / warmup) / (1 + 0.005 * sqrt(step)).

    The decay also acts during the warmup, so no step has the peak.
    """

    decay: float = 0.005

    def __call__(self, step):
        step = _float(step)
        rising = ops.minimum(step / self.warmup, 1.0) if self.warmup else 1.0
        return self.peak * rising / (1.0 + self.decay * ops.sqrt(step))


@keras.saving.register_keras_serializable("xmodels")
@dataclasses.dataclass(eq=False)
class SlantedTriangular(_Schedule):
    """ULMFiT's schedule (Howard and Ruder, 2018, section 3.2): linear from peak / ratio to the peak, and slowly back.

    `warmup` is the paper's cut, a tenth of the steps there. The paper's denominator, cut * (1 / cut_frac - 1), is num_steps - cut
    up to rounding; here the rate ends at peak / ratio for any number of steps.
    """

    num_steps: int
    ratio: float = 32.0

    def __call__(self, step):
        step, cut = _float(step), max(1, self.warmup)
        rising, falling = step / cut, 1.0 - (step - cut) / max(1, self.num_steps - cut)
        p = ops.maximum(ops.where(step < cut, rising, falling), 0.0)
        return self.peak * (1.0 + p * (self.ratio - 1.0)) / self.ratio


@keras.saving.register_keras_serializable("xmodels")
class Warmup(LearningRateSchedule):
    """peak * step / warmup, then the schedule `after`, whose steps count from the end of the warmup."""

    def __init__(self, peak: float, warmup: int, after: LearningRateSchedule):
        self.peak, self.warmup, self.after = peak, warmup, after

    def __call__(self, step):
        step = _float(step)
        then = self.after(ops.maximum(step - self.warmup, 0.0))
        return ops.where(step < self.warmup, self.peak * step / self.warmup, then) if self.warmup else then

    def get_config(self):
        after = keras.saving.serialize_keras_object(self.after)
        return {"peak": self.peak, "warmup": self.warmup, "after": after}

    @classmethod
    def from_config(cls, config):
        return cls(config["peak"], config["warmup"], keras.saving.deserialize_keras_object(config["after"]))


def _polynomial(peak, warmup, num_steps, floor, power):
    return Warmup(peak, warmup, PolynomialDecay(peak, max(1, num_steps - warmup), floor * peak, power))


def _linear(peak, warmup, num_steps, floor, _):
    return _polynomial(peak, warmup, num_steps, floor, 1.0)


def _cosine(peak, warmup, num_steps, floor, _):
    return Warmup(peak, warmup, CosineDecay(peak, max(1, num_steps - warmup), alpha=floor))


def _constant(peak, warmup, *_):
    return Warmup(peak, warmup, PolynomialDecay(peak, 1, peak))


def make_schedule(
    name: str, peak: float, warmup: int, num_steps: int, floor: float = 0.0, power: float = 1.0
) -> LearningRateSchedule:
    """Returns the schedule of a name in `SCHEDULES`.

    Args:
        name: of the schedule.
        peak: the highest learning rate.
        warmup: number of warmup steps.
        num_steps: steps of the training; ignored by schedules without an end.
        floor: share of the peak at which the linear, polynomial and cosine schedules end.
        power: exponent of the polynomial schedule.
    """
    make = globals()[SCHEDULES[name]]
    if not isinstance(make, type):
        return make(peak, warmup, num_steps, floor, power)
    ends = "num_steps" in {field.name for field in dataclasses.fields(make)}
    return make(peak, warmup, num_steps) if ends else make(peak, warmup)
