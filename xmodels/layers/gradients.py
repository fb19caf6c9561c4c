"""Gradients other than those of what is computed."""

from keras import ops


def scale_gradient(x, rate):
    """Returns x, whose gradient is multiplied by `rate`."""
    fixed = ops.stop_gradient(x)
    return fixed + rate * (x - fixed)
