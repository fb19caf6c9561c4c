"""Discrete choices of a layer, such as the buckets of tokens, which a second pass makes as the first one did.

A layer that chooses by rounded numbers calls `choose`. A pass over slightly other numbers, as the backward pass of a reversible
network is (`layers.reversible`), would else choose otherwise now and then.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmodels.layers.dropout import active_seed

_ACTIVE: list[tuple[bool, Any]] = []


@contextlib.contextmanager
def recorded() -> Iterator[list]:
    """Collects what is chosen inside the context, in its order."""
    found: list = []
    _ACTIVE.append((True, found))
    try:
        yield found
    finally:
        _ACTIVE.pop()


@contextlib.contextmanager
def repeated(choices: Sequence) -> Iterator[None]:
    """Makes the same choices inside the context, in their order."""
    _ACTIVE.append((False, iter(choices)))
    try:
        yield
    finally:
        _ACTIVE.pop()


def choose(compute: Callable[[], Any]):
    """Returns what `compute()` returns, a tensor of integers, or inside of `repeated` what was chosen before.

    The seed of dropout then stands where it stood after the first choice.
    """
    if not _ACTIVE:
        return compute()
    (records, choices), seed = _ACTIVE[-1], active_seed()
    if records:
        choices.append((compute(), seed.draws if seed else 0))
        return choices[-1][0]
    chosen, draws = next(choices)
    if seed:
        seed.draws = draws
    return chosen
