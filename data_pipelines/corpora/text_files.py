"""Opens text files that are read as a whole: tables, JSON, labelled data, prompts. Corpora are read by `lines`."""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import TextIO

from data_pipelines.corpora import encodings
from data_pipelines.corpora.compression import beginning, open_stream, stem
from data_pipelines.errors import DataError

LONGEST_LINE = 16_000_000  # bytes of a line that is looked at for its end


@contextlib.contextmanager
def open_text(path: str, by_lines: bool = True) -> Iterator[TextIO]:
    """Yields a text file, also compressed, in the encoding that `encodings.assume` or its byte-order mark says. Its lines end
    with a line feed, and keep their ends.

    Args:
        by_lines: whether lines are what is read; then a file without a line feed whose lines end with carriage returns is
            an error.

    Raises:
        DataError: there is no such file, or what goes wrong while it is read; names the file, and the line of bad text.
    """
    check_exists(path)
    encoding = encodings.assumed_encoding()
    if name := encodings.wide(head := beginning(path, encodings.LOOKED_AT, encoding)):
        raise DataError(encodings.wide_message(path, head, name))
    if message := encodings.binary_message(path, head):
        raise DataError(f"{message}. Take it out of the files that are read, or fetch it again.")
    if by_lines and b"\n" not in head and b"\r" in head and not stem(path).lower().endswith(".json"):
        check_line_feed(path, encoding)
    try:
        with open_stream(path, encoding) as (stream, _):
            file = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n")
            try:
                yield file
            finally:
                with contextlib.suppress(ValueError):  # whoever got it may have closed it
                    file.detach()
    except UnicodeDecodeError:
        raise DataError(_bad_text(path, encoding)) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


def check_exists(path: str) -> None:
    """Raises a DataError where there is no such file."""
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file. Check the path.")


def read_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yields the lines of a file that are not blank, each behind its place, for messages: file and line."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path}, line {number}", line.rstrip("\r\n")


def check_line_feed(path: str, encoding: str) -> None:
    """Raises a DataError if a file has carriage returns (CR), as lines of old Macs end with, but no line feed (LF)."""
    with open_stream(path, encoding) as (stream, _):
        line = stream.readline(LONGEST_LINE)
    count = line.rstrip(b"\r").count(b"\r")
    if count and not line.endswith(b"\n"):
        raise DataError(
            f"{path}, line 1: no line feed (LF), but {count:,} carriage return(s) (CR) in it: lines must end with LF or CR LF. "
            "`tr '\\r' '\\n'` makes it so."
        )


def _bad_text(path: str, encoding: str) -> str:
    """Returns where the first bytes stand that are not of the encoding, and what to do."""
    with open_stream(path, encoding) as (stream, _):
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                head = beginning(path, encodings.LOOKED_AT)
                more = stream.read(encodings.LOOKED_AT)
                found = encodings.bad_bytes(line, error.start, encoding, number > 1, head, more, head)
                return f"{path}, line {number}: {found}."
    return f"{path}: not valid {encoding} at its end. Is the file whole?"
