"""Adaptive computation time: each position halts after its own number of steps (Graves, 2016, arXiv 1603.08983;
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
    """The state of halting at each position, (B, L) each: `halted` bool, the others float32.

    `halted` is not derived from `total`, since a sum of probabilities that should be 1 may be 0.99999994.
    """

    halted: Any
    total: Any  # the sum of the halting probabilities, without that of the last step
    remainder: Any  # R: 1 - total at the step where the position halts, 0 before
    steps: Any  # n: the number of steps used so far

    @staticmethod
    def initial(shape) -> "Clock":
        nothing = ops.zeros(shape, "float32")
        return Clock(ops.zeros(shape, "bool"), nothing, nothing, nothing)


@dataclasses.dataclass(frozen=True)
class Halting:
    """The rule by which positions halt.

    Attributes:
        output: how the states s of the steps are combined with their weights w. "interpolate": w s + (1 - w) times the output
            so far, as tensor2tensor's "basic" and the listing in the paper; "accumulate": the sum of w s, the mean that the
            text of both papers describes.
        epsilon: a position halts at the step where the sum of its probabilities exceeds 1 - epsilon; the weight of that step
            is 1 minus the sum before it.
        force: whether positions that have not halted do so at the last step, so that their weights sum to 1. tensor2tensor
            does not.
        freeze: whether the state of a halted position is copied to the following steps, as in the text of the paper. In
            tensor2tensor it keeps changing and others attend to it; only its output is fixed.
        bias: the initial bias of the halting probability; 1 means about two steps.
        together: whether all positions of a row halt at once, by the mean of the probabilities of its tokens (tensor2tensor's
            `act_type="global"`, whose mean counts padding too). It shows each position to all.
    """

    output: str = "interpolate"
    epsilon: float = 0.01
    force: bool = True
    freeze: bool = True
    bias: float = 1.0
    together: bool = False

    def tick(self, clock: Clock, probability, is_last: bool):
        """Returns the weights (B, L) of the states after this step and the new clock, from halting probabilities (B, L)."""
        running = ops.logical_not(clock.halted)
        full = clock.total + probability > 1.0 - self.epsilon
        stops = running if is_last and self.force else ops.logical_and(running, full)
        continues = ops.logical_and(running, ops.logical_not(stops))
        rest = ops.where(stops, 1.0 - clock.total, 0.0)
        step = ops.where(continues, probability, 0.0)
        halted, steps = ops.logical_or(clock.halted, stops), clock.steps + ops.cast(running, "float32")
        return step + rest, Clock(halted, clock.total + step, clock.remainder + rest, steps)


class AdaptiveSteps(Steps):
    """`Steps` with adaptive computation time: each position halts by the rule `halting`.

    All steps are computed, even if every position has halted, so adaptive computation saves no time here. Padding is computed
    too, though no other position attends to it; `ponder_cost` excludes it.

    Args:
        kind, channels, num_steps: as in `Steps`.
        halting: the `Halting` rule.

    Raises:
        ValueError: `halting.output` is unknown.
    """

    def __init__(self, kind: str, channels: int, num_steps: int, halting: Halting, **kwargs):
        super().__init__(kind, channels, num_steps, **kwargs)
        if halting.output not in OUTPUTS:
            raise ValueError(f"`output` of halting must be one of {', '.join(OUTPUTS)}. Received: {halting.output!r}.")
        self.rule = halting
        self.halting = keras.layers.Dense(1, bias_initializer=keras.initializers.Constant(halting.bias), name="halting")

    def run(self, x, places, advance, real=None):
        """Runs the steps; arguments as in `Steps`.

        Returns:
            The output (B, L, D), and a dictionary of float32 `ponder_times` n (B, L), `remainders` R (B, L) and
            `halting_weights` w (B, L, T).
        """
        output, clock, weights = ops.zeros_like(x), Clock.initial(ops.shape(x)[:-1]), []
        for t, signal in enumerate(self.signals(places)):
            entered, halted = x + signal, ops.expand_dims(clock.halted, -1)
            weight, clock = self.rule.tick(clock, self.probability(entered, real), t == self.num_steps - 1)
            state = advance(entered, t)
            output = OUTPUTS[self.rule.output](output, state, ops.expand_dims(ops.cast(weight, state.dtype), -1))
            x = ops.where(halted, x, state) if self.rule.freeze else state
            weights.append(weight)
        times = {"ponder_times": clock.steps, "remainders": clock.remainder}
        return output, {**times, "halting_weights": ops.stack(weights, axis=-1)}

    def probability(self, x, real=None):
        """Returns the halting probability of each position: (B, L, D) -> float32 (B, L); `real` as in `Steps`."""
        found = ops.sigmoid(ops.cast(self.halting(x), "float32")[..., 0])
        if not self.rule.together:
            return found
        weights = ops.ones_like(found) if real is None else ops.cast(real, "float32")
        mean = ops.sum(found * weights, axis=1, keepdims=True) / ops.maximum(
            ops.sum(weights, axis=1, keepdims=True), 1.0
        )
        return ops.broadcast_to(mean, ops.shape(found))


def ponder_cost(ponder_times, remainders, weights):
    """Returns the ponder cost n + R (Graves, 2016, equation 13), of which only R has a gradient.

    Args:
        ponder_times, remainders: float32 (B, L), n and R.
        weights: (B, L), 1 for positions that count, 0 for others; tensor2tensor counts padding too.

    Returns:
        (weighted sum, sum of the weights), scalars.
    """
    weights = ops.cast(weights, "float32")
    return ops.sum((ponder_times + remainders) * weights), ops.sum(weights)
