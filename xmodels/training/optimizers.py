"""Optimizers as the papers used them; all may run under any `tf.distribute` strategy."""

import keras
from keras import ops

from xmodels.training.schedules import WarmupLinearDecay

# Google excludes names that match LayerNorm, layer_norm or bias; these are the names of such variables in Keras.
NOT_DECAYED = ("bias", "gamma", "beta")


class Synced:
    """The training step has summed the gradients over all replicas already, so the optimizer must not do it again."""

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)


@keras.saving.register_keras_serializable("xmodels")
class AdamW(Synced, keras.optimizers.AdamW):
    """Keras' AdamW (Loshchilov and Hutter, 2019), with bias correction."""


@keras.saving.register_keras_serializable("xmodels")
class BertAdamW(Synced, keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and without bias correction (google-research/bert, `AdamWeightDecayOptimizer`).

    w -= lr * (m / (sqrt(v) + epsilon) + decay * w); variables excluded from weight decay leave out the last term.
    """

    def __init__(
        self, learning_rate=1e-4, decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6, name="bert_adamw", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.decay, self.beta_1, self.beta_2, self.epsilon = decay, beta_1, beta_2, epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._m = [self.add_variable_from_reference(v, name="m") for v in variables]
        self._v = [self.add_variable_from_reference(v, name="v") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        learning_rate = ops.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, learning_rate * self._direction(gradient, variable))

    def _direction(self, gradient, variable):
        index = self._get_variable_index(variable)
        gradient = ops.cast(gradient, variable.dtype)
        m, v = self._m[index], self._v[index]
        new_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        new_v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        self.assign(m, new_m)
        self.assign(v, new_v)
        direction = new_m / (ops.sqrt(new_v) + self.epsilon)
        return direction + self.decay * variable if self._use_weight_decay(variable) else direction

    def get_config(self):
        numbers = {name: getattr(self, name) for name in ("decay", "beta_1", "beta_2", "epsilon")}
        return {**super().get_config(), **numbers}


@keras.saving.register_keras_serializable("xmodels")
class BertLamb(BertAdamW):
    """LAMB (You et al., 2020) as in google-research/albert: BertAdamW's direction, scaled by |w| / |direction|.

    The ratio is 1 where either norm is 0, and for variables excluded from weight decay.
    """

    def update_step(self, gradient, variable, learning_rate):
        direction = self._direction(gradient, variable)
        ratio = 1.0
        if self._use_weight_decay(variable):
            weight_norm, norm = _norm(variable), _norm(direction)
            usable = ops.logical_and(weight_norm > 0, norm > 0)
            ratio = ops.where(usable, weight_norm / ops.where(norm > 0, norm, 1.0), 1.0)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * ratio * direction)


def _norm(x):
    """The norm of a whole tensor; `ops.norm` takes two axes at most, and kernels of heads have three."""
    return ops.sqrt(ops.sum(ops.square(x)))


def _scheduled(optimizer_class, decay_name):
    def make(peak: float, warmup: int, num_steps: int, weight_decay: float = 0.01):
        schedule = WarmupLinearDecay(peak, warmup, num_steps)
        return optimizer_class(learning_rate=schedule, epsilon=1e-6, **{decay_name: weight_decay})

    return make


# Each takes (peak, warmup, num_steps, weight_decay) and returns an optimizer with BERT's schedule.
OPTIMIZERS = {
    "bert_adamw": _scheduled(BertAdamW, "decay"),
    "adamw": _scheduled(AdamW, "weight_decay"),
    "lamb": _scheduled(BertLamb, "decay"),
}


def exclude_from_decay(optimizer, named_variables) -> None:
    """Excludes biases and normalisation weights, found by the last part of their names, from weight decay."""
    excluded = [v for name, v in named_variables.items() if name.rsplit(".", 1)[-1] in NOT_DECAYED]
    optimizer.exclude_from_weight_decay(var_list=excluded)
