"""Gradients other than those of what is computed."""

from keras import ops

from xmodels.layers.rows import take_rows


def scale_gradient(x, rate):
    """Returns x, whose gradient is multiplied by `rate`."""
    fixed = ops.stop_gradient(x)
    return fixed + rate * (x - fixed)


def take_permuted(x, places, undo):
    """Returns rows of x in another order, in which each of them stands once in each of n rounds: (B, H, L, K) -> (B, H, n L, K).

    Its gradient takes rows too: that of `take_along_axis` adds each to its place, which takes a processor several times as long.

    Args:
        places: int (B, H, n L), the row that comes to each place.
        undo: int (B, H, n L), where each row went, round after round.
    """

    @ops.custom_gradient
    def taken(x):
        rounds = ops.shape(places)[2] // ops.shape(x)[2]

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream  # (B, H, n L, K)
            found = take_rows(upstream, undo)
            (batch, heads, length, width) = ops.shape(x)
            return ops.sum(ops.reshape(found, (batch, heads, rounds, length, width)), axis=2)

        return take_rows(x, places), gradient

    return taken(x)
