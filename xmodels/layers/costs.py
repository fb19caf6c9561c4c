"""Losses that layers add to that of the objective, such as the distance of tokens to their cluster (Roy et al., 2020).

A layer calls `add` in its `call`; the pass that computes the losses (`Objective.run`) opens `collect()` around the network. The
training step then treats these costs like the losses of the objective: it adds them to the loss and logs each by its name.
"""

import contextlib

_ACTIVE = []


@contextlib.contextmanager
def collect():
    """Collects the costs that layers add inside the context. Yields {name: (sum, weight)}, which is complete at its end."""
    found: dict = {}
    _ACTIVE.append(found)
    try:
        yield found
    finally:
        _ACTIVE.pop()


def is_collecting() -> bool:
    """Returns whether costs are added to a loss; where they are not, none needs to be computed."""
    return bool(_ACTIVE)


def add(name: str, total, weight) -> None:
    """Adds a cost to the loss; does nothing outside of `collect()`, as in a forward pass without a loss.

    The step divides the sum by the weight, both summed over all layers that add to `name`, all replicas and micro-batches. So
    the cost is a mean over tokens and layers. A factor of the cost is a factor of `total`. A layer adds the same names in
    training and in evaluation.

    Args:
        name: of the cost in the log.
        total: a scalar, the sum over the tokens of the batch.
        weight: a scalar, their number. It may depend on the batch, but not on states of the network.
    """
    if not _ACTIVE:
        return
    before = _ACTIVE[-1].get(name, (0.0, 0.0))
    _ACTIVE[-1][name] = before[0] + total, before[1] + weight
