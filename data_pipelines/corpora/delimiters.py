"""What parts the columns of a table: tabs, or commas in .csv, unless `--delimiter` says another character."""

import contextlib
import contextvars
from collections.abc import Iterator

from data_pipelines.errors import UsageError

NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_given: contextvars.ContextVar[str | None] = contextvars.ContextVar("delimiter", default=None)


def check_name(name: str) -> str:
    """Returns the character that a delimiter is.

    Raises:
        UsageError: it is none that can part columns.
    """
    found = NAMES.get(name, name)
    if len(found) != 1 or found.isalnum() or found in "\"'\r\n\\" or not (found.isprintable() or found == "\t"):
        raise UsageError(
            f"--delimiter={name}: expected one character that parts columns, such as ; or |, or one of {', '.join(NAMES)}."
        )
    return found


@contextlib.contextmanager
def assume(name: str | None) -> Iterator[None]:
    """Reads tables as parted by `name` while the body runs; None: as the ending of each says."""
    token = _given.set(None if name is None else check_name(name))
    try:
        yield
    finally:
        _given.reset(token)


def delimiter_of(kind: str) -> str:
    """Returns what parts the columns of a table with this ending."""
    return _given.get() or ("," if kind == ".csv" else "\t")


def is_given() -> bool:
    """Returns whether `--delimiter` says it."""
    return _given.get() is not None
