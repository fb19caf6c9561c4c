"""Muon (Jordan et al., 2024) for the matrices of a network's layers, with Adam for all other weights."""

import math

import keras
from keras import ops

NARROWEST = 16  # matrices with a shorter side, such as heads with few classes, are left to Adam


class Muon(keras.optimizers.Muon):
    """Keras' Muon with the scale of Liu et al. (2025, arXiv 2502.16982), for which Adam's learning rates are suitable.

    Kernels of attention have three axes, two of which are the heads and their width. They are updated as one matrix, as in the
    papers, while Keras leaves kernels with more than two axes to Adam.
    """

    def __init__(
        self, learning_rate=1e-3, weight_decay=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-6, momentum=0.95, **kwargs
    ):
        super().__init__(
            learning_rate=learning_rate, adam_beta_1=beta_1, adam_beta_2=beta_2, epsilon=epsilon, momentum=momentum,
            weight_decay=weight_decay, adam_weight_decay=weight_decay, **kwargs,
        )  # fmt: skip

    def _should_use_adamw(self, variable):
        return variable.path.rsplit("/", 1)[-1] != "kernel" or min(as_matrix(variable.shape)) < NARROWEST

    def _muon_update_step(self, gradient, variable, lr, m):
        gradient, lr = ops.cast(gradient, variable.dtype), ops.cast(lr, variable.dtype)
        moment = gradient + self.momentum * m
        self.assign(m, moment)
        direction = gradient + self.momentum * moment if self.nesterov else moment
        matrix = ops.reshape(direction, as_matrix(variable.shape))
        update = self.lr_adjust(self.zeropower_via_newtonschulz5(matrix, self.ns_steps))
        self.assign_sub(variable, lr * ops.reshape(update, variable.shape))

    def get_config(self):
        config = super().get_config()
        for name in ("beta_1", "beta_2"):
            config[name] = config.pop(f"adam_{name}")
        return {name: value for name, value in config.items() if name != "adam_weight_decay"}


def as_matrix(shape) -> tuple[int, int]:
    """Returns the shape of the most nearly square matrix into which a shape can be reshaped by merging axes; (1, n) for one axis."""
    shape = tuple(shape)
    pairs = [(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, len(shape))]
    return min(pairs, key=lambda sides: max(sides) / min(sides), default=(1, math.prod(shape)))
