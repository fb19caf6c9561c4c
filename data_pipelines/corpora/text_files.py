"""Opens text files that are read as a whole: tables, JSON, labelled data, prompts. Corpora are read by `lines`."""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import TextIO

from data_pipelines.corpora import encodings
from data_pipelines.corpora.compression import beginning, open_stream
from data_pipelines.errors import DataError


@contextlib.contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Yields a text file, also compressed, in the encoding that `encodings.assume` or its byte-order mark says; line ends are
    kept.

    Raises:
        DataError: there is no such file, or what goes wrong while it is read; names the file, and the line of bad text.
    """
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file. Check the path.")
    encoding = encodings.assumed()
    if name := encodings.wide(head := beginning(path, encodings.LOOKED_AT, encoding)):
        raise DataError(encodings.wide_message(path, head, name))
    if message := encodings.binary_message(path, head):
        raise DataError(f"{message}. Take it out of the files that are read, or fetch it again.")
    try:
        with open_stream(path, encoding) as (stream, _):
            file = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            try:
                yield file
            finally:
                with contextlib.suppress(ValueError):  # whoever got it may have closed it
                    file.detach()
    except UnicodeDecodeError:
        raise DataError(_bad_text(path, encoding)) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None


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
