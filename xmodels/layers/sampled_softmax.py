"""A softmax over many words, of which training compares each label with a sample (Bengio and Senécal, 2003; Jean et al., 2015)."""

import math

import keras
from keras import ops

from xmodels.layers.dropout import random_integers

HIDDEN = -1e9  # replaces the score of a sampled word that is the label itself


def log_uniform_sample(num_classes: int, count: int):
    """Draws classes with replacement, frequent ones more often: class k with the probability log((k + 2) / (k + 1)) / log(V + 1).

    So the classes must be in the order of their counts, the most frequent first. Draws follow `dropout_seed`.

    Returns:
        int32 (count,)
    """
    uniform = ops.cast(random_integers((count,), 32), "float32") * 2.0**-32 + 0.5  # 0 to 1
    drawn = ops.exp(uniform * math.log(num_classes + 1.0)) - 1.0
    return ops.clip(ops.cast(drawn, "int32"), 0, num_classes - 1)


def log_expected_counts(classes, num_classes: int, count: int):
    """Returns the logarithm of how often `log_uniform_sample` draws each of `classes` on average, float32 of their shape."""
    place = ops.cast(classes, "float32")
    probability = ops.log1p(1.0 / (place + 1.0)) / math.log(num_classes + 1.0)
    return ops.log(probability) + math.log(count)


class SampledSoftmax(keras.layers.Layer):
    """Logits of V classes from states of width D.

    Args:
        num_classes: V.
        width: D.
    """

    def __init__(self, num_classes: int, width: int, **kwargs):
        super().__init__(**kwargs)
        initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.table = self.add_weight(shape=(num_classes, width), initializer=initializer, name="table")
        self.bias = self.add_weight(shape=(num_classes,), initializer="zeros", name="bias")
        self.built = True

    def logits(self, states):
        """Returns the logits of all classes: (..., D) -> float32 (..., V)."""
        table = ops.cast(self.table, states.dtype)
        return ops.cast(ops.matmul(states, ops.transpose(table)), "float32") + self.bias

    def sampled_logits(self, states, labels, sampled):
        """Returns the logits of the label of each state and of the sampled classes, the latter less the logarithm of how often each is
        drawn.

        So the sum of their exponentials estimates the sum over all classes without bias. (TensorFlow's `sampled_softmax_loss` draws
        without replacement and corrects the label too.)

        Args:
            states: (N, D).
            labels: int (N,).
            sampled: int (S,).

        Returns:
            float32 (N, 1 + S), the label first.
        """
        num_classes, count = self.table.shape[0], sampled.shape[0]
        labels = ops.cast(labels, sampled.dtype)
        own = ops.sum(states * ops.cast(ops.take(self.table, labels, axis=0), states.dtype), axis=-1)  # (N,)
        own = ops.cast(own, "float32") + ops.take(self.bias, labels)
        rows = ops.cast(ops.take(self.table, sampled, axis=0), states.dtype)  # (S, D)
        others = ops.cast(ops.matmul(states, ops.transpose(rows)), "float32")  # (N, S)
        others = others + ops.take(self.bias, sampled) - log_expected_counts(sampled, num_classes, count)
        others = ops.where(ops.expand_dims(labels, 1) == sampled, HIDDEN, others)
        return ops.concatenate([ops.expand_dims(own, 1), others], axis=1)
