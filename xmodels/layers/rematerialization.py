"""Rematerialization: a block discards its inner activations and recomputes them for the gradient, which saves memory.

(Chen et al., 2016, "Training deep nets with sublinear memory cost")
"""

import contextlib

import keras
from keras import ops

from xmodels.layers import costs
from xmodels.layers.dropout import active_seed, dropout_seed

_ACTIVE = []


@contextlib.contextmanager
def rematerialized(wanted: bool = True):
    """Makes blocks (`layers.blocks.Block`) that are called with `training=True` inside the context recompute in the backward pass."""
    _ACTIVE.append(wanted)
    try:
        yield
    finally:
        _ACTIVE.pop()


def is_wanted() -> bool:
    return bool(_ACTIVE and _ACTIVE[-1])


def recompute(function, x, **others):
    """Returns `function(x, **others)`, keeping only the arguments for the gradient.

    Dropout draws the same masks both times, those that it would draw without recomputation: the second pass restarts from the
    same number of draws of the seed. Gradients reach `x`, all floating-point tensors in `others`, also nested ones, and
    weights, but no other tensors that `function` closes over. Costs that layers add (`layers.costs`) are results of the
    recomputed function too.
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
        with dropout_seed(seed.base, first) if seed else contextlib.nullcontext(), costs.collect() as added:
            result = function(x, **keras.tree.pack_sequence_as(others, again))
            if seed:
                seed.draws = active_seed().draws
        return result, added

    result, added = keras.remat(run)(x, *(leaves[i] for i in places))
    for name, pair in added.items():
        costs.add(name, *pair)
    return result


def _hidden_zero(words, dtype):
    """Returns 0 in a form that compilers cannot simplify.

    A compiler merges computations with the same inputs, and would so keep the activations after all. TensorFlow's own guard
    against that is a comparison that XLA simplifies on TPUs.
    """
    return ops.cast(ops.max(words) < ops.min(words), dtype)


def _is_differentiable(leaf) -> bool:
    return ops.is_tensor(leaf) and keras.backend.is_float_dtype(keras.backend.standardize_dtype(leaf.dtype))
