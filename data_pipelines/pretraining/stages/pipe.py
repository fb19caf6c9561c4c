"""Offline stages: each maps an iterator to an iterator, so a chain of them needs little memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Stage = Callable[[Iterator[Any]], Iterator[Any]]


def in_batches(items: Iterable[Any], size_of: Callable[[Any], int], enough: int) -> Iterator[list[Any]]:
    """Yields items in lists whose sizes are `enough` together, but for those of the last list."""
    gathered: list[Any] = []
    size = 0
    for item in items:
        gathered.append(item)
        size += size_of(item)
        if size >= enough:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def pipe(items: Iterator[Any], *stages: Stage) -> Iterator[Any]:
    """Sends items through the stages, one after the other."""
    for stage in stages:
        items = stage(items)
    return items
