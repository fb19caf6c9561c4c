"""Variants of Adam as in their original code, where those of Keras differ."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from xmodels.training.optimizers.synced import OptimizerMixin


class FusedAdam(OptimizerMixin):
    """A mixin that computes the update of Keras' Adam (Kingma and Ba, 2015, section 2, last form) with TensorFlow's own kernel.

    Keras uses a chain of fourteen operations, each of which reads and writes all numbers again.
    """

    def update_step(self, gradient, variable, learning_rate):
        if keras.backend.backend() != "tensorflow":  # for `tpu_preflight --backend=jax`
            return super().update_step(gradient, variable, learning_rate)
        index = self._get_variable_index(variable)
        step = ops.cast(self.iterations + 1, variable.dtype)
        betas = self.beta_1, self.beta_2
        powers = tuple(ops.power(ops.cast(beta, variable.dtype), step) for beta in betas)
        moments = self._momentums[index], self._velocities[index]
        fused_adam(variable, *moments, gradient, ops.cast(learning_rate, variable.dtype), betas, powers, self.epsilon)


def fused_adam(variable, m, v, gradient, rate, betas, powers, epsilon) -> None:
    """Updates the moments m and v, and variable -= rate * sqrt(1 - powers[1]) / (1 - powers[0]) * m / (sqrt(v) + epsilon).

    Args:
        betas, powers: beta_1 and beta_2, and both to the power of the step; powers of 0 disable bias correction.
    """
    numbers = {"beta1": betas[0], "beta2": betas[1], "beta1_power": powers[0], "beta2_power": powers[1]}
    numbers |= {"lr": rate, "epsilon": epsilon}
    # `variable` is a variable of TensorFlow, the moments are Keras variables that wrap one.
    handles = {"var": variable.handle, "m": m.value.handle, "v": v.value.handle}
    tf.raw_ops.ResourceApplyAdam(
        **handles, grad=tf.cast(gradient, variable.dtype),
        **{name: tf.cast(number, variable.dtype) for name, number in numbers.items()},
    )  # fmt: skip


class LazyAdam(OptimizerMixin):
    """A mixin in front of `Synced`: Adam that changes weights and moments of the rows of a sparse gradient alone.

    PyTorch's `SparseAdam` does the same. The bias correction counts the steps of the whole table. A row of zeros is left alone too.
    """

    updates_rows = True

    def update_rows(self, gradient, variable, learning_rate) -> None:
        index, rows = self._get_variable_index(variable), gradient.indices
        values, step = tf.cast(gradient.values, variable.dtype), tf.cast(self.iterations + 1, variable.dtype)
        first, second = self._momentums[index].value, self._velocities[index].value
        # A row that occurs several times has its gradient at one place, and zeros elsewhere.
        there = tf.reduce_any(values != 0, axis=list(range(1, values.shape.rank)), keepdims=True)
        there = tf.cast(there, variable.dtype)
        m, v = tf.gather(first, rows), tf.gather(second, rows)
        of_m = there * (1.0 - self.beta_1) * (values - m)
        of_v = there * (1.0 - self.beta_2) * (tf.square(values) - v)
        first.scatter_add(tf.IndexedSlices(of_m, rows))
        second.scatter_add(tf.IndexedSlices(of_v, rows))
        correction = tf.sqrt(1.0 - self.beta_2**step) / (1.0 - self.beta_1**step)
        change = there * learning_rate * correction * (m + of_m) / (tf.sqrt(v + of_v) + self.epsilon)
        variable.scatter_sub(tf.IndexedSlices(change, rows))


class BertAdam(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and without bias correction (google-research/bert, `AdamWeightDecayOptimizer`).

    w -= lr * (m / (sqrt(v) + epsilon) + weight_decay * w), without the last term for variables excluded from weight decay.
    """

    def __init__(
        self, learning_rate=1e-4, weight_decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6, name="bert_adam", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)  # the decay is part of `update_step` here
        self.decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._m, self._v = (
            self.add_optimizer_variables(variables, name) for name in ("m", "v")
        )  # in this order, for older states

    def update_step(self, gradient, variable, learning_rate):
        learning_rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, learning_rate * self.direction(gradient, variable))

    def direction(self, gradient, variable):
        """Returns the direction that is subtracted, before the learning rate. Updates the moments."""
        m, v = self.moments(ops.cast(gradient, variable.dtype), variable)
        return self.add_decay(m / (ops.sqrt(v) + self.epsilon), variable)

    def moments(self, gradient, variable):
        """Updates and returns the first and second moments."""
        index = self._get_variable_index(variable)
        m = self.beta_1 * self._m[index] + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * self._v[index] + (1.0 - self.beta_2) * ops.square(gradient)
        self.assign(self._m[index], m)
        self.assign(self._v[index], v)
        return m, v

    def add_decay(self, direction, variable):
        """Adds the weight decay to the direction, if the variable has one."""
        return direction + self.decay * variable if self._use_weight_decay(variable) else direction

    def get_config(self):
        numbers = {name: getattr(self, name) for name in ("beta_1", "beta_2", "epsilon")}
        return {**super().get_config(), "weight_decay": self.decay, **numbers}


class FusedBertAdam(BertAdam):
    """`BertAdam` with TensorFlow's own kernel. The weight decay, which is independent of the rest, is applied first."""

    def update_step(self, gradient, variable, learning_rate):
        if keras.backend.backend() != "tensorflow":
            return super().update_step(gradient, variable, learning_rate)
        index, rate = self._get_variable_index(variable), ops.cast(learning_rate, variable.dtype)
        if self._use_weight_decay(variable):
            self.assign_sub(variable, variable * (rate * self.decay))
        # The kernel computes 1 - beta in the precision of the weight, where beta_2 = 0.999 is off by 1.3e-5 of 1 - beta_2. The
        # moments are off by such a factor throughout, which is taken out of their quotient.
        first, second = (_share_of_rounding(beta, variable.dtype) for beta in (self.beta_1, self.beta_2))
        rate, epsilon = rate * (first / second**0.5), self.epsilon / second**0.5
        numbers = (self.beta_1, self.beta_2), (0.0, 0.0), epsilon
        fused_adam(variable, self._m[index], self._v[index], gradient, rate, *numbers)


def _share_of_rounding(beta: float, dtype: str) -> float:
    """Returns 1 - beta, divided by what it is where beta is rounded to a type."""
    rounded = float(np.asarray(beta, tf.as_dtype(dtype).as_numpy_dtype))
    return (1.0 - beta) / (1.0 - rounded) if rounded < 1.0 else 1.0


class MtDnnAdamax(BertAdam):
    """Adamax as in namisan/mt-dnn, version 0.1: without bias correction, with weight decay as in `BertAdam`.

    u = max(beta_2 * u, |g| + epsilon); w -= lr * (m / (u + epsilon) + weight_decay * w).
    """

    def direction(self, gradient, variable):
        gradient, index = ops.cast(gradient, variable.dtype), self._get_variable_index(variable)
        m = self.beta_1 * self._m[index] + (1.0 - self.beta_1) * gradient
        u = ops.maximum(self.beta_2 * self._v[index], ops.abs(gradient) + self.epsilon)
        self.assign(self._m[index], m)
        self.assign(self._v[index], u)
        return self.add_decay(m / (u + self.epsilon), variable)
