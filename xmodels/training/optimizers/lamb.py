"""LAMB (You et al., 2020, arXiv 1904.00962)."""

from keras import ops

from xmodels.training.optimizers.adam import BertAdam


class AlbertLamb(BertAdam):
    """LAMB as in google-research/albert: BertAdam's direction, scaled by |w| / |direction|.

    The ratio is 1 if either norm is 0, and for variables excluded from weight decay. There is no bias correction.
    """

    def update_step(self, gradient, variable, learning_rate):
        direction = self.direction(gradient, variable)
        ratio = _ratio(variable, direction) if self._use_weight_decay(variable) else 1.0
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * ratio * direction)


class CorrectedLamb(AlbertLamb):
    """LAMB with Adam's bias correction, algorithm 2 of the paper.

    Keras' Lamb applies weight decay outside of the ratio. Without weight decay they are equal.
    """

    def moments(self, gradient, variable):
        m, v = super().moments(gradient, variable)
        step = ops.cast(self.iterations + 1, variable.dtype)
        betas = (ops.cast(beta, variable.dtype) for beta in (self.beta_1, self.beta_2))
        return tuple(x / (1.0 - ops.power(beta, step)) for x, beta in zip((m, v), betas, strict=True))


def _ratio(variable, direction):
    weight_norm, norm = _norm(variable), _norm(direction)
    usable = ops.logical_and(weight_norm > 0, norm > 0)
    return ops.where(usable, weight_norm / ops.where(norm > 0, norm, 1.0), 1.0)


def _norm(x):
    """Returns the norm of a whole tensor. `ops.norm` takes at most two axes, and kernels of attention have three."""
    return ops.sqrt(ops.sum(ops.square(x)))
