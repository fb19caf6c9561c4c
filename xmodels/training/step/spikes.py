"""Warns when the loss of a step jumps: often the first sign of a bad shard or of too high a learning rate."""

import tensorflow as tf

from xmodels.training.step.precision import ONCE

HORIZON = 100  # steps of the running mean; there are no warnings before as many
DEVIATIONS = 6.0


class Spikes:
    """Counts steps whose loss is more than six standard deviations above its running mean.

    Mean and variance are exponential moving averages over about 100 steps. A spike is clipped to the bound before it enters them,
    so that it does not hide the next one, while a loss that stays high becomes normal. Not part of a state: a resumed run
    starts anew.
    """

    def __init__(self):
        self.running = tf.Variable([0.0, 0.0, 0.0], trainable=False, aggregation=ONCE)  # steps, mean, variance
        # Since the last `take`: the number of spikes, then loss, mean, deviation and step of the highest.
        self.found = tf.Variable([0.0] * 5, trainable=False, aggregation=ONCE, dtype=tf.float64)

    def observe(self, loss: tf.Tensor, step: tf.Tensor) -> None:
        """Records the loss of a step, a finite scalar."""
        count, mean, variance = tf.unstack(self.running.read_value())
        deviation = tf.sqrt(variance)
        bound = mean + DEVIATIONS * deviation
        spike = (count >= HORIZON) & (loss > bound)
        share = 1.0 / tf.minimum(count + 1.0, HORIZON)  # of the new value; at first this gives the plain mean
        distance = tf.where(spike, bound, loss) - mean
        self.running.assign(
            tf.stack([count + 1.0, mean + share * distance, (1.0 - share) * (variance + share * distance**2)])
        )
        found = self.found.read_value()
        this = tf.cast(tf.stack([loss, mean, deviation, tf.cast(step, tf.float32)]), tf.float64)
        highest = tf.where(spike & (this[0] > found[1]), this, found[1:])
        self.found.assign(tf.concat([[found[0] + tf.cast(spike, tf.float64)], highest], axis=0))

    def take(self) -> str | None:
        """Returns a warning about the steps since the last call, or None."""
        count, loss, mean, deviation, step = self.found.numpy().tolist()
        if not count:
            return None
        self.found.assign([0.0] * 5)
        more = f" ({int(count)} steps did; this was the highest)" if count > 1 else ""
        return (
            f"Warning: the loss jumped to {loss:.4g} at step {int(step)}, {(loss - mean) / max(deviation, 1e-9):.1f} standard "
            f"deviations above its running mean of {mean:.4g}{more}. If it stays there, go back to a state before it and "
            "lower --learning_rate."
        )
