"""Offline stages: each maps an iterator to an iterator, so a chain of them needs little memory."""

from collections.abc import Callable, Iterator
from typing import Any

Stage = Callable[[Iterator[Any]], Iterator[Any]]


def pipe(items: Iterator[Any], *stages: Stage) -> Iterator[Any]:
    """Sends items through the stages, one after the other."""
    for stage in stages:
        items = stage(items)
    return items
