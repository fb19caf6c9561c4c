"""JSON that others wrote: whatever is wrong with it is a json.JSONDecodeError, and no text in it is half a character."""

import json
import re
from typing import IO, Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
REPLACEMENT = "\ufffd"


class HalfCharacter(json.JSONDecodeError):
    """An escape such as \\ud800 stands alone; it is one half of a character in UTF-16, which no file can hold."""


def load(file: IO[str]) -> Any:
    """The value in a file; errors are those of `loads`, and UnicodeDecodeError."""
    return loads(file.read())


def loads(text: str | bytes, replace: bool = False) -> Any:
    """The value of a text.

    Args:
        replace: put U+FFFD in the place of half characters.

    Raises:
        HalfCharacter: there is one.
        json.JSONDecodeError: this is not JSON, nested too deep, or holds a number of thousands of digits.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deep", text, 0) from None
    except ValueError as error:  # Python's limit on digits
        raise json.JSONDecodeError(str(error), text, 0) from None
    found = _SURROGATE.search(text)
    if not found:
        return value
    whole = json.dumps(value, ensure_ascii=False)  # pairs are one character by now
    try:
        whole.encode()
    except UnicodeEncodeError:
        if not replace:
            raise HalfCharacter(
                f"half of a character ({found[0]} without its other half)", text, found.start()
            ) from None
        return json.loads(re.sub("[\ud800-\udfff]", REPLACEMENT, whole))
    return value
