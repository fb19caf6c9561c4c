"""Trading time for memory: a block forgets its inner activations and computes them again for the gradient.

(Chen et al., 2016, "Training deep nets with sublinear memory cost")
"""

import contextlib

import keras
from keras import ops

from xmodels.layers.dropout import active_seed, dropout_seed

_ACTIVE = []


@contextlib.contextmanager
def rematerialized(wanted: bool = True):
    """Inside, blocks (`layers.blocks.Block`) that train are recomputed in the backward pass."""
    _ACTIVE.append(wanted)
    try:
        yield
    finally:
        _ACTIVE.pop()


def is_wanted() -> bool:
    return bool(_ACTIVE and _ACTIVE[-1])


def recompute(function, x, **others):
    """`function(x, **others)`, of which only the arguments are kept for the gradient.

    Dropout draws the same masks both times, those that it would draw without recomputation: it begins anew at the place
    in its seed where it stood. Gradients reach `x` and all tensors of floating point in `others`, also nested ones;
    what `function` merely encloses gets none, but for weights.
    """
    seed, leaves = active_seed(), keras.tree.flatten(others)
    places = [i for i, leaf in enumerate(leaves) if _is_differentiable(leaf)]
    first = seed.draws if seed else 0
    passes = []

    def run(x, *values):
        passes.append(1)
        if seed and len(passes) > 1:
            x = x + _hidden_zero(seed.base, x.dtype)
        again = list(leaves)
        for place, value in zip(places, values, strict=True):
            again[place] = value
        with dropout_seed(seed.base, first) if seed else contextlib.nullcontext():
            result = function(x, **keras.tree.pack_sequence_as(others, again))
            if seed:
                seed.draws = active_seed().draws
        return result

    return keras.remat(run)(x, *(leaves[i] for i in places))


def _hidden_zero(words, dtype):
    """0, of which a compiler does not know it.

    Compilers merge what is computed twice from the same values, and would keep it again. TensorFlow's own guard against that is a
    comparison that XLA simplifies on TPUs.
    """
    return ops.cast(ops.max(words) < ops.min(words), dtype)


def _is_differentiable(leaf) -> bool:
    return ops.is_tensor(leaf) and keras.backend.is_float_dtype(keras.backend.standardize_dtype(leaf.dtype))
