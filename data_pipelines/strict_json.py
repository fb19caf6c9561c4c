"""JSON that others wrote: whatever is wrong with it is a json.JSONDecodeError, and no text in it is half a character."""

import collections
import json
import os
import re
import stat
import sys
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89abAB]..(?:\\u[dD][c-fC-F]..)?|\\u[dD][c-fC-F]..")  # a pair, or one half
_LONG_NUMBER = re.compile(rf"\d{{{sys.get_int_max_str_digits() or 10**9},}}")
REPLACEMENT = "\ufffd"


class HalfCharacter(json.JSONDecodeError):
    """An escape such as \\ud800 stands alone; it is one half of a character in UTF-16, which no file can hold."""


class NoFile(json.JSONDecodeError):
    """What should be a file is a folder, a pipe or a device, which may never end."""

    def __init__(self, mode: int):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe" if stat.S_ISFIFO(mode) else "device or socket"
        super().__init__(f"it is a {kind}, not a file", "", 0)

    def __str__(self) -> str:
        return self.msg


def read(path: str, encoding: str = "utf-8") -> Any:
    """Returns the value in the file `path`.

    Raises:
        NoFile: there is something else of this name.
        others: those of `loads`, UnicodeDecodeError and FileNotFoundError.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise NoFile(mode)
    with open(path, encoding=encoding) as file:
        return loads(file.read())


def loads(text: str | bytes, replace: bool = False, unique: bool = False) -> Any:
    """Returns the value of a text.

    Args:
        replace: put U+FFFD in the place of half characters.
        unique: refuse an object that has a key twice, of which Python would take the last.

    Raises:
        HalfCharacter: there is one.
        json.JSONDecodeError: this is not JSON, nested too deep, or holds a number of thousands of digits.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deep", text, 0) from None
    except ValueError:  # Python's limit on digits
        found = _LONG_NUMBER.search(text)
        raise json.JSONDecodeError("a number of thousands of digits", text, found.start() if found else 0) from None
    halves = [found for found in _SURROGATE.finditer(text) if len(found[0]) == 6]
    if not halves:
        return value
    whole = json.dumps(value, ensure_ascii=False)  # pairs are one character by now
    try:
        whole.encode()
    except UnicodeEncodeError:
        if not replace:
            raise HalfCharacter(
                f"half of a character ({halves[0][0]} without its other half)", text, halves[0].start()
            ) from None
        return json.loads(re.sub("[\ud800-\udfff]", REPLACEMENT, whole))
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = collections.Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise json.JSONDecodeError(f"the key {twice!r:.60} stands twice in an object", "", 0)
    return found
