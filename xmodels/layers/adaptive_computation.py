"""Adaptive computation time: each position stops after a number of steps of its own (Graves, 2016, arXiv 1603.08983;
Dehghani et al., 2018, section 2.2 and appendix C)."""

import dataclasses
from typing import Any, NamedTuple

import keras
from keras import ops

from xmodels.layers.steps import Steps

OUTPUTS = {
    "interpolate": lambda before, state, weight: weight * state + (1 - weight) * before,
    "accumulate": lambda before, state, weight: weight * state + before,
}


class Clock(NamedTuple):
    """How far the positions have come; (B, L) each, float32 but for `halted`.

    `halted` is a boolean of its own: a sum of probabilities that should be 1 may be 0.99999994.
    """

    halted: Any
    total: Any  # of the probabilities so far
    remainder: Any  # R: what was left of 1 at the last step
    steps: Any  # n: those used

    @staticmethod
    def started(shape) -> "Clock":
        nothing = ops.zeros(shape, "float32")
        return Clock(ops.zeros(shape, "bool"), nothing, nothing, nothing)


@dataclasses.dataclass(frozen=True)
class Halting:
    """The rule by which positions stop.

    Attributes:
        output: "interpolate": w s + (1 - w) of the output before, tensor2tensor's "basic" and the listing in the paper;
            "accumulate": the sum of w s, the mean that the text of both papers speaks of.
        epsilon: a position stops at the step that brings its sum above 1 - epsilon; its weight is then what is left of 1.
        force: those that are still going stop at the last step too, so that all weights sum to 1. Not in tensor2tensor.
        freeze: the state of a position that has stopped is copied to the following steps, as the paper's text says. In
            tensor2tensor it goes on changing, visible to the others; only its output stays.
        bias: where the bias of the probability begins; 1 means about two steps.
    """

    output: str = "interpolate"
    epsilon: float = 0.01
    force: bool = True
    freeze: bool = True
    bias: float = 1.0

    def tick(self, clock: Clock, probability, is_last: bool):
        """Weights (B, L) of the states after this step, from the probabilities (B, L) to stop, and the new clock."""
        running = ops.logical_not(clock.halted)
        full = clock.total + probability > 1.0 - self.epsilon
        stops = running if is_last and self.force else ops.logical_and(running, full)
        continues = ops.logical_and(running, ops.logical_not(stops))
        rest = ops.where(stops, 1.0 - clock.total, 0.0)
        step = ops.where(continues, probability, 0.0)
        halted, steps = ops.logical_or(clock.halted, stops), clock.steps + ops.cast(running, "float32")
        return step + rest, Clock(halted, clock.total + step, clock.remainder + rest, steps)


class AdaptiveSteps(Steps):
    """`Steps`, of which each position uses as many as it needs.

    A step that no position needs any more is computed all the same and changes nothing, so adaptive computation saves no
    time here. Padding takes part, unseen by other positions; `ponder_cost` leaves it out.
    """

    def __init__(self, kind: str, channels: int, num_steps: int, halting: Halting, **kwargs):
        super().__init__(kind, channels, num_steps, **kwargs)
        if halting.output not in OUTPUTS:
            raise ValueError(f"`output` of halting must be one of {', '.join(OUTPUTS)}. Received: {halting.output!r}.")
        self.rule = halting
        self.halting = keras.layers.Dense(1, bias_initializer=keras.initializers.Constant(halting.bias), name="halting")

    def run(self, x, places, advance):
        """Arguments as of `Steps`.

        Returns:
            The output (B, L, D), and float32 `ponder_times` n (B, L), `remainders` R (B, L) and
            `halting_weights` w (B, L, T).
        """
        output, clock, weights = ops.zeros_like(x), Clock.started(ops.shape(x)[:-1]), []
        for t, signal in enumerate(self.signals(places)):
            entered, halted = x + signal, ops.expand_dims(clock.halted, -1)
            weight, clock = self.rule.tick(clock, self.probability(entered), t == self.num_steps - 1)
            state = advance(entered, t)
            output = OUTPUTS[self.rule.output](output, state, ops.expand_dims(ops.cast(weight, state.dtype), -1))
            x = ops.where(halted, x, state) if self.rule.freeze else state
            weights.append(weight)
        times = {"ponder_times": clock.steps, "remainders": clock.remainder}
        return output, {**times, "halting_weights": ops.stack(weights, axis=-1)}

    def probability(self, x):
        """(B, L, D) -> float32 (B, L): how likely a position stops."""
        return ops.sigmoid(ops.cast(self.halting(x), "float32")[..., 0])


def ponder_cost(ponder_times, remainders, weights):
    """n + R (Graves, 2016, equation 13), of which only R has a gradient.

    Args:
        ponder_times, remainders: (B, L).
        weights: (B, L), 1 for positions that count; tensor2tensor counts padding too.

    Returns:
        (sum, sum of the weights), scalars.
    """
    weights = ops.cast(weights, "float32")
    return ops.sum((ponder_times + remainders) * weights), ops.sum(weights)
