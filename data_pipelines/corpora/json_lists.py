"""Lists in JSON files that are larger than memory: item by item, each of which is read whole."""

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

from data_pipelines import strict_json
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError

CHARACTERS = 1 << 16  # that are read at once; of a longer item as many as were read before
# A string, or a sign; a lone quote begins what is not read yet.
_PARTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}",]', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")


def is_list(path: str) -> bool:
    """Returns whether a file begins as a list."""
    with open_text(path) as file:
        return file.read(4096).lstrip().startswith("[")


def read_list(path: str, key: str | None = None) -> Iterator[Any]:
    """Yields the items of a file that is a list, or of the list that its object has under `key`.

    Raises:
        DataError: the file is not JSON, or has no such list; names the line, or what is there.
    """
    with open_text(path) as file:
        text = _Text(file, path)
        try:
            yield from _items(text) if key is None else _items_under(text, key)
            if text.next():
                raise json.JSONDecodeError("Extra data", "", 0)
        except json.JSONDecodeError as error:
            raise text.fault(error) from None


class _Text:
    """A file of JSON of which a part is in memory.

    Attributes:
        buffer: that part; `at` is the place in it up to which it was taken.
        line, column: where that place is in the file, from 1.
    """

    def __init__(self, file: TextIO, path: str):
        self.file, self.path, self.buffer = file, path, ""
        self.at, self.line, self.column = 0, 1, 1

    def more(self) -> bool:
        """Reads on; False at the end of the file."""
        self.buffer, self.at = self.buffer[self.at :], 0
        read = self.file.read(max(CHARACTERS, len(self.buffer)))
        self.buffer += read
        return bool(read)

    def next(self) -> str:
        """Returns the next sign that is not blank, which is not taken; empty at the end of the file."""
        while True:
            self.take(_BLANK.match(self.buffer, self.at).end())
            if self.at < len(self.buffer) or not self.more():
                return self.buffer[self.at : self.at + 1]

    def take(self, end: int) -> str:
        """Returns what stands before a place."""
        taken, self.at = self.buffer[self.at : end], end
        lines = taken.count("\n")
        self.line += lines
        self.column = len(taken) - taken.rfind("\n") if lines else self.column + len(taken)
        return taken

    def expect(self, signs: str, message: str) -> str:
        """Takes the next sign, which must be one of these."""
        found = self.next()
        if not found or found not in signs:
            raise json.JSONDecodeError(message, "", 0)
        return self.take(self.at + 1)

    def value(self) -> Any:
        """Takes the next value."""
        self.next()
        seen, depth = 0, 0  # characters behind `at` that were looked at, and lists and objects that are open there
        while True:
            for part in _PARTS.finditer(self.buffer, self.at + seen):
                sign = part[0]
                if sign == '"':
                    break
                if depth == 0 and sign in ",]}":
                    return self._parsed(part.start())
                depth += (sign in "[{") - (sign in "]}")
                seen = part.end() - self.at
                if depth == 0:
                    return self._parsed(part.end())
            if not self.more():
                return self._parsed(len(self.buffer))

    def _parsed(self, end: int) -> Any:
        value = strict_json.loads(self.buffer[self.at : end])
        self.take(end)
        return value

    def fault(self, error: json.JSONDecodeError) -> DataError:
        """Returns what is wrong behind the place up to which the file was taken."""
        column = error.colno + (self.column - 1 if error.lineno == 1 else 0)
        return DataError(f"{self.path}, line {self.line + error.lineno - 1}: not JSON ({error.msg}, column {column}).")


def _items(text: _Text) -> Iterator[Any]:
    text.expect("[", "Expecting a list")
    if text.next() == "]":
        text.expect("]", "")
        return
    while True:
        yield text.value()
        if text.expect(",]", "Expecting ',' delimiter") == "]":
            return


def _items_under(text: _Text, key: str) -> Iterator[Any]:
    names, there = [], False
    if text.next() != "{":
        found = type(text.value()).__name__
        raise DataError(f"{text.path}, top level: expected {key!r} (list). Found: {found}.")
    text.expect("{", "")
    more = text.next() != "}"
    while more:
        if text.next() != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", "", 0)
        names.append(text.value())
        text.expect(":", "Expecting ':' delimiter")
        if names[-1] == key and text.next() == "[":
            there = True
            yield from _items(text)
        else:
            text.value()
        more = text.next() == ","
        if more:
            text.expect(",", "")
    text.expect("}", "Expecting ',' delimiter")
    if not there:
        raise DataError(f"{text.path}, top level: expected {key!r} (list). Found: {', '.join(names)[:200]}.")
