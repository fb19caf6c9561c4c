"""Errors that a user can act on: each says what, where and what to change, and carries the exit code of a command.

The codes are documented in the README: 1 a process that ended badly, 2 usage, 3 data, 4 checkpoint, 5 device, 6 non-finite numbers.
"""

import contextlib
from collections.abc import Iterator


class ReportedError(ValueError):
    """A problem in what the user gave us. A command prints its message without a traceback."""

    exit_code = 1


class UsageError(ReportedError):
    """A flag, or a combination of flags, that cannot work."""

    exit_code = 2


class DataError(ReportedError):
    """A missing, damaged or unsuitable input file, record or vocabulary."""

    exit_code = 3


class CheckpointError(ReportedError):
    """A missing or damaged checkpoint, or one that does not fit the model."""

    exit_code = 4


class DeviceError(ReportedError):
    """A device or distribution strategy that is not there."""

    exit_code = 5


class NonFiniteError(ReportedError):
    """Training met NaN or infinity too often to go on."""

    exit_code = 6


@contextlib.contextmanager
def name_source(temporary: str, source: str) -> Iterator[None]:
    """Lets the errors of the body name what the user gave, instead of a temporary copy of it."""
    try:
        yield
    except ReportedError as error:
        raise type(error)(str(error).replace(temporary, source)) from None
