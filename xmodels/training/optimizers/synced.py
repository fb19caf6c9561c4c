"""The mixin of all optimizers: gradients that are summed by the training step, and a learning rate for each variable."""

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf
from keras import ops

from xmodels.training.step.sparse import of_values

if TYPE_CHECKING:
    from keras.optimizers import Optimizer as OptimizerMixin
else:
    OptimizerMixin = object  # the optimizer itself follows the mixin in the bases of a class


@dataclasses.dataclass(frozen=True)
class Rate:
    """The learning rate of a variable.

    Attributes:
        factor: multiplies the learning rate; 0 freezes the variable.
        begins: the first step in which the variable is trained. Until then neither its value nor its moments change.
    """

    factor: float = 1.0
    begins: int = 0


def clip_to_norm(gradients, norm, clip_norm: float) -> list:
    """Returns gradients of this global norm scaled down to `clip_norm`, if that is not 0."""
    if not clip_norm:
        return gradients
    factor = clip_norm / tf.maximum(norm, clip_norm)
    return [of_values(gradient, lambda x: x * factor) for gradient in gradients]


class Synced(OptimizerMixin):
    """A mixin for Keras' optimizers: `class AdamW(Synced, keras.optimizers.AdamW)`.

    - The training step has already summed the gradients over all replicas, so they are not summed again.
    - Each variable has a `Rate`. It scales the learning rate, and with it the weight decay, but not the gradient, since scaling
      the gradient would not change Adam's update. Rates depend only on the step, so they are not part of a checkpoint.
    - Sparse gradients (`tf.IndexedSlices`, each row once or with zeros) update only their rows, if that gives the result of the
      dense update, see `update_rows`; otherwise they are made dense.
    - A variable that starts to be trained later counts its own steps, so that its bias correction starts then.
    """

    _start_step = 0  # inside `update_step`, the steps before the current variable began to be trained

    def set_rates(self, pairs) -> None:
        """Sets the rates of variables, pairs of (variable, Rate); others are trained at the full rate from step 0."""
        self._rates = {self._var_key(variable): rate for variable, rate in pairs}

    def zero_frozen(self, gradients, variables):
        """Returns the gradients, zero for variables that are not trained yet, so that they do not count in a norm."""
        rates = [self._rate_of(variable) for variable in variables]
        return [
            of_values(gradient, lambda x, rate=rate: tf.where(self._has_begun(rate), x, tf.zeros_like(x)))
            if rate.begins
            else gradient
            for gradient, rate in zip(gradients, rates, strict=True)
        ]

    def clip(self, gradients, variables, squares, clip_norm: float) -> list:
        """Returns the gradients, all together scaled down to the norm `clip_norm`; 0 for no clipping.

        Args:
            squares: the squared norms of the gradients, float32 (V,).
        """
        return clip_to_norm(gradients, tf.sqrt(tf.reduce_sum(squares)), clip_norm)

    def advance(self) -> None:
        """Counts a step that changes nothing."""
        self.iterations.assign_add(1)

    def report(self, variables, norms) -> dict[str, float]:
        """Returns what a log says of each group of weights; {} without groups, where `learning_rate` says it all."""
        return {}

    @property
    def named_variables(self) -> dict:
        """The variables by their names in a state."""
        # Their order follows from the order of the weights, which the network fixes. Of their names only the last word is
        # stable: Keras numbers the networks that one process makes.
        return {f"{i:05d}.{v.name.rsplit('_', 1)[-1]}": v for i, v in enumerate(self.variables)}

    @property
    def iterations(self):
        """The number of updates done; inside `update_step`, those of the current variable."""
        return super().iterations - self._start_step if self._start_step else super().iterations

    def _rate_of(self, variable) -> Rate:
        return getattr(self, "_rates", {}).get(self._var_key(variable), Rate())

    def _has_begun(self, rate: Rate):
        return tf.convert_to_tensor(self._iterations) >= rate.begins

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)

    def _apply_weight_decay(self, variables):
        """Does nothing: Keras would decay all variables at the same rate; `update_step` uses the rate of each."""

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

    @property
    def updates_rows(self) -> bool:
        """Whether rows without a gradient stay unchanged, apart from weight decay."""
        return False

    def update_rows(self, gradient, variable, learning_rate) -> None:
        """Updates the rows of a sparse gradient. Subclasses with `updates_rows` define it."""
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
        self._start_step = slept
        try:
            super().update_step(gradient, variable, learning_rate)
        finally:
            self._start_step = 0
