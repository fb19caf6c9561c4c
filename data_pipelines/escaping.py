"""Text that somebody else wrote, made harmless for where it is shown."""

import html
import json
import re
from typing import Any

# Controls, among them the escape codes of terminals, and characters that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!\.?\d[\d.,eE+-]*$)")


def for_terminal(text: str) -> str:
    """Returns the same with escapes, such as \\x1b, in place of characters that could steer a terminal; tabs and line ends stay."""
    return _UNSEEN.sub(lambda found: _spelled(found[0]), text)


def for_terminal_line(text: str) -> str:
    """Returns the same in one line."""
    return for_terminal(text).replace("\n", "\\n")


class TerminalStream:
    """A stream of text that writes what `for_terminal` makes of it.

    A carriage return stays: with it a bar of progress goes back. So do colours on a terminal, where we print them.
    """

    def __init__(self, stream):
        self._stream = stream
        self._kept = re.compile(r"(\r|\x1b\[[\d;]*m)" if stream.isatty() else r"(\r)")

    def write(self, text: str) -> int:
        parts = self._kept.split(text)  # what is kept stands at odd places
        self._stream.write("".join(part if place % 2 else for_terminal(part) for place, part in enumerate(parts)))
        return len(text)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


def for_markdown(text: str) -> str:
    """Returns the same for one line of Markdown, be it in a cell of a table: no HTML, no further cells, no line ends."""
    text = for_terminal(text).replace("\n", "\\n").replace("\t", " ")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", html.escape(text, quote=False))


def for_code_span(text: str) -> str:
    """Returns the same as code within a line of Markdown, whatever backticks it holds. (CommonMark, code spans)"""
    text = for_terminal(text).replace("\n", "\\n").replace("\t", " ")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " * (len(fence) > 1 or not text)
    return f"{fence}{blank}{text}{blank}{fence}"


def for_json_line(value: Any) -> str:
    """Returns a value as JSON in one line that shows nothing but what it says."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def for_spreadsheet(text: str) -> str:
    """Returns the same as a cell that a spreadsheet does not compute: an apostrophe goes before what would begin a formula.

    Numbers with a sign stay as they are. (OWASP, CSV injection)
    """
    return f"'{text}" if _FORMULA.match(text) else text


def for_cell(text: str) -> str:
    """Returns the same as a cell of a table, which neither a terminal nor a spreadsheet takes for anything but text."""
    return for_terminal(for_spreadsheet(text))


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
