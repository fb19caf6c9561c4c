"""What every optimizer here adds to Keras' rules: gradients summed elsewhere, and a rate for each variable."""

import dataclasses

import tensorflow as tf
from keras import ops

from xmodels.training.step.sparse import of_values


@dataclasses.dataclass(frozen=True)
class Rate:
    """How fast a variable learns.

    Attributes:
        factor: multiplies the learning rate; 0 freezes the variable.
        begins: the first step in which it learns. Until then nothing of it moves: no value, no decay, no moment.
    """

    factor: float = 1.0
    begins: int = 0


class Synced:
    """Stands before one of Keras' optimizers: `class AdamW(Synced, keras.optimizers.AdamW)`.

    - The training step has summed the gradients over all replicas already, so they are not summed again.
    - Each variable has a `Rate`. It scales the learning rate and not the gradient, which Adam would not notice, and
      weight decay with it. Rates are functions of the step alone, so a checkpoint need not hold them.
    - Sparse gradients (`tf.IndexedSlices`, each row once or with zeros) change only their rows, where that gives what the dense
      rule gives: see `update_rows`. Everywhere else they become dense.
    - A variable that begins late counts its own steps, so that its bias correction starts when it does.
    """

    _slept = 0  # steps that the variable at hand has slept through, inside `update_step`

    def set_rates(self, pairs) -> None:
        """Sets the rates of variables, given as (variable, Rate); others learn at the full rate from step 0."""
        self._rates = {self._var_key(variable): rate for variable, rate in pairs}

    def awake(self, gradients, variables):
        """The gradients, with zeros for variables that do not learn yet, so that these do not count in a norm."""
        rates = [self._rate_of(variable) for variable in variables]
        return [
            of_values(gradient, lambda x, rate=rate: tf.where(self._has_begun(rate), x, tf.zeros_like(x)))
            if rate.begins
            else gradient
            for gradient, rate in zip(gradients, rates, strict=True)
        ]

    @property
    def iterations(self):
        """Updates done; inside `update_step`, those of the variable at hand."""
        return super().iterations - self._slept if self._slept else super().iterations

    def _rate_of(self, variable) -> Rate:
        return getattr(self, "_rates", {}).get(self._var_key(variable), Rate())

    def _has_begun(self, rate: Rate):
        return tf.convert_to_tensor(self._iterations) >= rate.begins

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)

    def _apply_weight_decay(self, variables):
        """Keras decays all variables at one rate; here `update_step` does it at their own."""

    def update_step(self, gradient, variable, learning_rate):
        rate = self._rate_of(variable)
        if not rate.factor:
            return
        if isinstance(gradient, tf.IndexedSlices) and not self._changes_only_rows(variable):
            gradient = tf.convert_to_tensor(gradient)
        learning_rate = learning_rate if rate.factor == 1.0 else learning_rate * rate.factor
        if rate.begins:
            tf.cond(
                self._has_begun(rate),
                lambda: self._update(gradient, variable, learning_rate, rate.begins),
                lambda: None,
            )
        else:
            self._update(gradient, variable, learning_rate, 0)

    updates_rows = False  # does a row without a gradient stay as it is, without weight decay?

    def update_rows(self, gradient, variable, learning_rate) -> None:
        """The rule for the rows of a sparse gradient."""
        raise TypeError(f"{type(self).__name__} has no rule for sparse gradients.")

    def _changes_only_rows(self, variable) -> bool:
        return self.updates_rows and not (self.weight_decay and self._use_weight_decay(variable))

    def _update(self, gradient, variable, learning_rate, slept: int) -> None:
        if isinstance(gradient, tf.IndexedSlices):
            self.update_rows(gradient, variable, ops.cast(learning_rate, variable.dtype))
            return
        if self.weight_decay and self._use_weight_decay(variable):
            decay = ops.cast(learning_rate, variable.dtype) * ops.cast(self.weight_decay, variable.dtype)
            self.assign_sub(variable, variable * decay)
        self._slept = slept
        try:
            super().update_step(gradient, variable, learning_rate)
        finally:
            self._slept = 0
