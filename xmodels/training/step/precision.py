"""Dynamic loss scaling for float16 (Micikevicius et al., 2018, section 3.2; constants as in apex and Keras)."""

import tensorflow as tf

FIRST, LARGEST, SMALLEST = 2.0**15, 2.0**24, 1.0
GROW_AFTER = 2000  # steps without an overflow

ONCE = tf.VariableAggregation.ONLY_FIRST_REPLICA  # for variables to which all replicas assign the same value


class LossScale:
    """The factor of the loss that keeps small gradients from vanishing in float16; gradients are divided by it in float32.

    It is halved after every step whose gradients overflow, and doubled after 2,000 steps without. The variables are part of a
    state.
    """

    def __init__(self):
        self.scale = tf.Variable(FIRST, trainable=False, aggregation=ONCE)
        self.good_steps = tf.Variable(0, trainable=False, aggregation=ONCE, dtype=tf.int64)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {"loss_scale.scale": self.scale, "loss_scale.good_steps": self.good_steps}

    @property
    def is_smallest(self) -> tf.Tensor:
        """Whether the scale cannot shrink further, so that it is not the cause of an overflow: bool ()."""
        return self.scale <= SMALLEST

    def grow(self) -> None:
        """Updates the scale after a step with finite gradients."""
        full = self.good_steps + 1 >= GROW_AFTER
        self.scale.assign(tf.where(full, tf.minimum(2.0 * self.scale, LARGEST), self.scale))
        self.good_steps.assign(tf.where(full, tf.zeros((), tf.int64), self.good_steps + 1))

    def shrink(self) -> None:
        """Updates the scale after a step with gradients that are not finite."""
        self.scale.assign(tf.maximum(0.5 * self.scale, SMALLEST))
        self.good_steps.assign(0)
