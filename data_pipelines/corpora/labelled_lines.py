"""Reads lines of fastText: labels that begin with `__label__`, and the text that they belong to."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from data_pipelines.errors import UsageError

PREFIX = "__label__"
KINDS = (".txt", ".ft")  # endings of files that may hold such lines
_LABEL = re.compile(rf"(?:(?<=\s)|^){PREFIX}\S*")


def recognize(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Returns whether the first line that is not empty has such labels before its text, and all lines, from the first one on."""
    source = iter(lines)
    begun = []
    for line in source:
        begun.append(line)
        if line.strip():
            break
    return bool(begun) and begun[-1].lstrip().startswith(PREFIX), itertools.chain(begun, source)


def check_columns(given: Iterable[str], path: str) -> None:
    """Raises a UsageError where flags choose columns, of which there are none."""
    if given := list(given):
        raise UsageError(
            f"{path}: lines with {PREFIX} have no columns. Found {' and '.join(given)}: leave out such flags."
        )


def read(
    lines: Iterable[str], path: str, several: bool, refuse: Callable[[str, str], None]
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yields the number, the text and the labels of each line that is not empty. Labels may stand anywhere in a line.

    Args:
        several: whether a line may have any number of labels; otherwise it has one.
        refuse: called with the place of a line that cannot be used and what is wrong with it; it raises an error, or the line is left
            out.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LABEL.findall(line)
        labels = tuple(label.removeprefix(PREFIX) for label in found)
        text = re.sub(r"\s+", " ", _LABEL.sub("", line)).strip()
        place = f"{path}, line {number}"
        if not all(labels):
            refuse(place, f"a label is empty: {PREFIX} is all there is of it")
        elif len(labels) != 1 and not several:
            more = "; --task=multi_label reads texts with several" if labels else ""
            refuse(place, f"{len(labels)} labels that begin with {PREFIX}, expected one{more}")
        else:
            yield number, text, labels
