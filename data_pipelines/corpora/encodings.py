"""Encodings of text files: which one a file has, and how its contents are read as UTF-8.

A byte-order mark settles the encoding. Without one it is the one that `--encoding` names, UTF-8 by default; others are
never guessed for reading, only to say what a file looks like.
"""

import codecs
import contextlib
import contextvars
import io
from collections.abc import Iterator
from typing import BinaryIO

from data_pipelines.errors import UsageError

UTF_8 = "utf-8"
LOOKED_AT = 4096  # bytes at the beginning of a file that tell its encoding
_MARKS = (  # the mark of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip
_NOT_FOR_FILES = frozenset(
    ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7", "mbcs", "oem")
)
# The most frequent characters of Chinese, simplified and traditional, with its punctuation.
_FREQUENT = frozenset(
    "的一是不了在有人我他这这这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年发后作里用道行所然家种事成方多经么去"
    "法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业"
    "這個們來為國說時會對過發後裡種經麼學現當沒動還進樣開從實無與長機關點業，。、；：？！“”（）《》「」　"
)
_assumed = contextvars.ContextVar("encoding", default=UTF_8)


def check_name(name: str) -> str:
    """Returns the name of an encoding as Python knows it.

    Raises:
        UsageError: there is no such encoding, or it is none of files.
    """
    try:
        found = codecs.lookup(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        found = None
    # Python says so of codecs such as rot13 and hex in no public way.
    if found is None or not found._is_text_encoding or found.name in _NOT_FOR_FILES:
        raise UsageError(
            f"--encoding={name}: unknown. Known are those of Python, such as utf-8, utf-16, gb18030, big5, shift_jis, "
            "windows-1252."
        )
    return found.name


@contextlib.contextmanager
def assume(name: str) -> Iterator[None]:
    """Reads files without a byte-order mark that name no encoding of their own as `name`, while the body runs."""
    token = _assumed.set(check_name(name))
    try:
        yield
    finally:
        _assumed.reset(token)


def assumed_encoding() -> str:
    """Returns what `assume` was told; UTF-8 without it."""
    return _assumed.get()


def read_mark(head: bytes) -> str | None:
    """Returns the encoding that a byte-order mark tells."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def wide(head: bytes) -> str | None:
    """Returns UTF-16 or UTF-32 by the mark, or by NUL bytes in the same places of all characters; None for anything else."""
    name = read_mark(head)
    if name in ("utf-16", "utf-32"):
        return name
    return _wide_without_mark(head)


def _wide_without_mark(head: bytes) -> str | None:
    columns = [head[place : len(head) // 4 * 4 : 4] for place in range(4)]
    empty = [column.count(0) >= 0.99 * len(column) > 0 for column in columns]
    if empty == [False, False, True, True] or empty == [False, True, True, True]:
        return "utf-32-le"
    if empty == [True, True, False, False] or empty == [True, True, True, False]:
        return "utf-32-be"
    # Chinese has few characters with a zero byte, but line ends, blanks and digits are such.
    zeros = head.count(0)
    if zeros * 400 < len(head) or not head or (zeros * 4 < len(head) and is_utf8(head)):
        return None
    odd = {name: _odd_characters(head, name) for name in ("utf-16-le", "utf-16-be")}
    best = min(odd, key=odd.get)
    return best if odd[best] < 0.05 else None


def _odd_characters(head: bytes, name: str) -> float:
    """Returns the share of characters that text does not hold, such as controls and unassigned ones."""
    text = head[: len(head) // 2 * 2].decode(name, "replace")
    odd = sum(not c.isprintable() and c not in "\r\n\t\ufeff\u3000" for c in text)
    return odd / len(text) if len(text) > 1 else 1.0


def wide_message(path: str, head: bytes, name: str) -> str:
    """Returns what is wrong with a file of UTF-16 or UTF-32 that is to be UTF-8."""
    sign = (
        f"begins with the byte-order mark of {name.upper()}"
        if read_mark(head)
        else f"looks like {name.upper()}, from its NUL bytes"
    )
    return f"{path}, line 1: not UTF-8: {sign}. Add --encoding={name}, or convert it: iconv -f {name.upper()} -t UTF-8."


def bad_bytes(
    line: bytes, place: int, encoding: str, is_later: bool, head: bytes, more: bytes = b"", own: bytes = b""
) -> str:
    """Returns what is wrong with a line that cannot be decoded, and what to do.

    Args:
        line: as UTF-8, as `AsUtf8` gives it.
        place: of the first bad byte in it.
        is_later: whether lines stand before it.
        head: the beginning of the file.
        more: what stands behind the line, which may tell its encoding.
        own: the beginning of the file as it is.
    """
    if encoding != UTF_8 and _is_utf8_beyond_ascii(own):
        return f"not valid {encoding}, but UTF-8, from its beginning. One --encoding holds for all files: convert those that differ"
    if encoding != UTF_8:
        return f"not valid {encoding} at byte {place + 1} of the line, counted in UTF-8. Give the --encoding that the file has"
    name = likely(line) or likely(line + more)
    if is_later and _is_utf8_beyond_ascii(head[: head.find(line)] if line in head else head):
        advice = f"What stands before it is UTF-8, this looks like {name or 'something else'}: mend the file"
    elif name:
        advice = f"It looks like {name}: add --encoding={name}"
    else:
        advice = "Say which encoding the file has, such as --encoding=windows-1252"
    return f"not valid UTF-8 at byte {place + 1} of the line (0x{line[place]:02x}). {advice}"


def binary_message(path: str, head: bytes) -> str | None:
    """Returns what is wrong with a file whose beginning no text has; None where it may be text."""
    zeros = head.count(0)
    return (
        f"{path}: not plain text but a binary file ({zeros:,} NULs in its first {len(head):,} bytes)"
        if zeros * 10 > len(head)
        else None
    )


def is_utf8(head: bytes) -> bool:
    """Returns whether all of a beginning is UTF-8, but for a character that may be cut at the end."""
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _is_utf8_beyond_ascii(head: bytes) -> bool:
    return is_utf8(head) and not head.removeprefix(codecs.BOM_UTF8).isascii()


def likely(data: bytes) -> str | None:
    """Returns what bytes that are not UTF-8 look like: an encoding to try; None without an idea."""
    if name := wide(data[:LOOKED_AT]):
        return name
    scores = {name: _chinese(data[: 1 << 16], name) for name in ("gb18030", "big5")}
    best = max(scores, key=scores.get)
    return best if scores[best] > 0.2 else None


def _chinese(data: bytes, name: str) -> float:
    """Returns the share of frequent Chinese characters among the characters beyond ASCII."""
    beyond = [c for c in data.decode(name, "replace") if c > "\x7f"]
    return sum(c in _FREQUENT for c in beyond) / max(1, len(beyond))


def _keep_as_bad(error: UnicodeError) -> tuple[str, int]:
    """Returns what cannot be decoded becomes the byte 0xff, which is in no UTF-8, so that readers name or replace it as such."""
    return "\udcff", error.end


codecs.register_error("xmodels-bad-byte", _keep_as_bad)


class AsUtf8(io.RawIOBase):
    """The contents of a stream in another encoding, as UTF-8 without a byte-order mark."""

    def __init__(self, stream: BinaryIO, encoding: str):
        self.stream = stream
        self.head = stream.read(LOOKED_AT)
        name = read_mark(self.head) or encoding
        if name in ("utf-16", "utf-32") and not read_mark(self.head):  # Python would take the order of this machine
            name = wide(self.head) or f"{name}-le"
        self.decoder = codecs.getincrementaldecoder(name)("xmodels-bad-byte")
        self.ready, self.is_finished = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self.ready and not self.is_finished:
            data, self.head = self.head or self.stream.read(1 << 16), b""
            self.is_finished = not data
            text = self.decoder.decode(data, final=not data)
            self.ready = text.encode("utf-8", "surrogateescape")
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size
