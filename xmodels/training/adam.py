"""Adam's relatives as the originals wrote them, where Keras' own differ."""

import keras
from keras import ops


class BertAdam(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and without bias correction (google-research/bert, `AdamWeightDecayOptimizer`).

    w -= lr * (m / (sqrt(v) + epsilon) + decay * w); variables excluded from weight decay leave out the last term.
    """

    def __init__(
        self, learning_rate=1e-4, weight_decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6, name="bert_adam", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)  # decay is no step of its own here
        self.decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._m, self._v = (
            self.add_optimizer_variables(variables, name) for name in ("m", "v")
        )  # as older states have it

    def update_step(self, gradient, variable, learning_rate):
        learning_rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, learning_rate * self.direction(gradient, variable))

    def direction(self, gradient, variable):
        """What the variable moves against; updates its moments."""
        m, v = self.moments(ops.cast(gradient, variable.dtype), variable)
        return self.decayed(m / (ops.sqrt(v) + self.epsilon), variable)

    def moments(self, gradient, variable):
        """The new first and second moments."""
        index = self._get_variable_index(variable)
        m = self.beta_1 * self._m[index] + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * self._v[index] + (1.0 - self.beta_2) * ops.square(gradient)
        self.assign(self._m[index], m)
        self.assign(self._v[index], v)
        return m, v

    def decayed(self, direction, variable):
        """The direction with the decay of the variable, if it has one."""
        return direction + self.decay * variable if self._use_weight_decay(variable) else direction

    def get_config(self):
        numbers = {name: getattr(self, name) for name in ("beta_1", "beta_2", "epsilon")}
        return {**super().get_config(), "weight_decay": self.decay, **numbers}


class MtDnnAdamax(BertAdam):
    """Adamax as in namisan/mt-dnn, version 0.1: no bias correction, and weight decay inside.

    u = max(beta_2 * u, |g| + epsilon); w -= lr * (m / (u + epsilon) + decay * w).
    """

    def direction(self, gradient, variable):
        gradient, index = ops.cast(gradient, variable.dtype), self._get_variable_index(variable)
        m = self.beta_1 * self._m[index] + (1.0 - self.beta_1) * gradient
        u = ops.maximum(self.beta_2 * self._v[index], ops.abs(gradient) + self.epsilon)
        self.assign(self._m[index], m)
        self.assign(self._v[index], u)
        return self.decayed(m / (u + self.epsilon), variable)
