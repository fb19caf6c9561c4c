"""Lines of a piece of a file: a range of bytes, or every so many blocks of a compressed stream.

The place where a piece begins and the one where the piece before it ends are found by the same rule, so that the pieces
of a file hold each line once, however many they are.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from data_pipelines.corpora import encodings
from data_pipelines.corpora.compression import beginning, is_compressed, open_stream
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.text_files import check_line_feed
from data_pipelines.errors import DataError

LONGEST_LINE = 1_000_000  # bytes; a longer line is a file without line breaks, or not text
LONGEST_RECORD = 16_000_000  # bytes of a line that holds a whole document in a field
ENDLESS = 1 << 62
_STEP = 1 << 20
_BLOCK = 1 << 16  # bytes of lines that are read at once
_GOLDEN = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio
_BOM = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """The share [start, end) of the `size` bytes of a file; `target` is the file of its translation."""

    path: str
    format: str
    start: int
    end: int
    size: int
    target: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.end - self.start >= self.size

    def holds(self, number: int) -> bool:
        """Returns whether block `number` of something that cannot be cut by bytes is in this share.

        Multiples of the golden ratio, taken modulo 1, fill the unit interval evenly, so that each share gets its part
        of the blocks wherever the stream ends.
        """
        place = (number * _GOLDEN & (1 << 64) - 1) * self.size >> 64
        return self.start <= place < self.end


def block_size(size: int) -> int:
    """Returns bytes of unpacked text that stay together: some hundred blocks a file, of at most 16 MB."""
    return max(1 << 12, min(1 << 24, size >> 6))


class _Cursor:
    """A place between two lines of a stream.

    Attributes:
        start, next: offsets of the line read last and of the one that comes.
        blank: offset of the line read last if it was blank; else -1.
        lines: the number of lines before `next`, in a stream that cannot seek.
    """

    def __init__(self, stream: BinaryIO, longest: int, can_seek: bool):
        self.stream, self.longest, self.can_seek = stream, longest, can_seek
        self.start = self.next = self.lines = 0
        self.blank = -1
        self.peeked: tuple[bytes, int] | None = None
        self.waiting: list[bytes] = []  # lines that `block` gave and that were put back, the next one last

    def block(self, capacity: int) -> bytes:
        """Returns some of the next lines: those that begin within `capacity` bytes, as long as they are few. Does not move."""
        if self.peeked or self.waiting or capacity <= 0:
            return b""
        data = self.stream.read(min(capacity, _BLOCK))
        return data if data.endswith(b"\n") else data + self.stream.readline(self.longest + 1)

    def put_back(self, data: bytes) -> None:
        """Reads the lines of a block once more, by `read`."""
        self.waiting = [*io.BytesIO(data)][::-1]

    def peek(self) -> tuple[bytes, int]:
        """Returns the next line and its length; of an endless one only the beginning. Empty at the end."""
        if self.peeked is None:
            raw = self.waiting.pop() if self.waiting else self.stream.readline(self.longest + 1)
            self.peeked = raw, len(raw) if len(raw) <= self.longest else len(raw) + self._finish(raw)
        return self.peeked

    def _finish(self, tail: bytes) -> int:
        """Reads to the end of the line; returns the number of bytes."""
        length = 0
        while tail and not tail.endswith(b"\n"):
            tail = self.stream.readline(_STEP)
            length += len(tail)
        return length

    def read(self) -> bytes:
        """Moves over a line; stays at the last one at the end."""
        raw, length = self.peek()
        if not raw:
            return raw
        self.peeked = None
        self.start, self.next = self.next, self.next + length
        self.lines += 1
        self.blank = self.start if raw.isspace() else -1
        return raw

    def skip(self, offset: int) -> None:
        """Moves to the first line that begins at or behind `offset`."""
        if self.next < offset and self.peeked:
            self.read()
        if self.next >= offset:
            return
        if self.can_seek:
            self.stream.seek(offset - 1)
        else:
            left = offset - 1 - self.next
            while left > 0 and (block := self.stream.read(min(left, _STEP))):
                left -= len(block)
                self.lines += block.count(b"\n")
        self.next = offset - 1 + self._finish(b"?")
        self.lines += 1
        self.blank = -1


class Lines:
    """Iterates over the lines of a piece, decoded and stripped of blanks at both ends, and knows where it is.

    Args:
        begins: where a document may begin: "line" (at any line), "blank" (behind a blank line), "doc" (at a line that
            begins with `<doc `), or "file" (at the beginning only; the piece is then read whole).
        longest: bytes of the longest line.
        strip: what to strip; "\\r\\n" keeps the blanks (and tabs).
        dropped: what stands for a bad line that is dropped; None leaves it out.

    Raises:
        DataError: bad text or an endless line, unless `on_bad_text` allows it; names the file and the line.
    """

    def __init__(
        self,
        piece: Piece,
        begins: str,
        reading: Reading,
        monitor: Monitor,
        longest: int = LONGEST_LINE,
        strip: str | None = None,
        dropped: str | None = None,
    ):
        self.path, self.piece, self.begins = piece.path, piece, begins
        self.reading, self.monitor = reading, monitor
        self.longest, self.strip, self.dropped = longest, strip, dropped
        self.encoding = reading.codec
        self.is_streamed = is_compressed(piece.path) or self.encoding != encodings.UTF_8
        self.cursor: _Cursor | None = None

    @property
    def position(self) -> int:
        """Offset of the line given last, in the unpacked file."""
        return self.cursor.start

    @property
    def source(self) -> str:
        return f"{self.path}, byte {self.cursor.start}"

    @property
    def place(self) -> str:
        """File and line, for messages. Counting the lines of a plain file takes a while."""
        number = self.cursor.lines if self.is_streamed else _line_number(self.path, self.cursor.start)
        return f"{self.path}, line {number}"

    def __iter__(self) -> Iterator[str]:
        piece, reported = self.piece, 0
        share = piece.end - piece.start
        with open_stream(piece.path, self.encoding) as (stream, file):
            cursor = self.cursor = _Cursor(stream, self.longest, not self.is_streamed)
            if self.longest < ENDLESS:
                self._check_line_feed()
            for start, end in self._ranges():
                self._go(start)
                while not self._at_boundary(end):
                    before = cursor.next
                    if block := cursor.block(end - before):
                        yield from self._whole_block(block)
                    if cursor.next == before:
                        if not (raw := cursor.read()):
                            break
                        text = self._decode(raw)
                        text = self.dropped if text is None else text
                        if text is not None:
                            yield text
                    if before >> 16 != cursor.next >> 16:
                        done = file.tell() * share // max(1, piece.size) if self.is_streamed else cursor.next - start
                        self.monitor.progress(max(0, min(done, share) - reported))
                        reported = max(reported, min(done, share))
            if piece.start == 0 and cursor.next == 0:
                self.monitor.counts["empty_files"] += 1
        self.monitor.progress(share - reported)

    def _check_line_feed(self) -> None:
        """Raises a DataError if the whole file is one line with carriage returns in it, as lines of old Macs end."""
        raw, length = self.cursor.peek()
        if length <= self.longest and not raw.endswith(b"\n") and b"\r" in raw.rstrip(b"\r"):
            check_line_feed(self.path, self.encoding)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yields the ranges of bytes that are ours, in order; reading moves all ends on to the next boundary."""
        piece = self.piece
        if piece.is_whole or self.begins == "file":
            yield 0, ENDLESS
        elif not self.is_streamed:
            yield piece.start, piece.end if piece.end < piece.size else ENDLESS
        else:
            number, size = 0, block_size(piece.size)
            while self.cursor.peek()[0]:
                if piece.holds(number):
                    yield number * size, (number + 1) * size
                elif (number + 1) * size > self.cursor.next + (1 << 24):
                    self.cursor.skip(number * size)  # so that we see the end of the stream
                number += 1

    def _go(self, start: int) -> None:
        """Moves on to the first boundary at or behind `start`."""
        if start:
            self.cursor.skip(start)
            while not self._at_boundary(start) and self.cursor.read():
                pass

    def _at_boundary(self, offset: int) -> bool:
        if offset == ENDLESS:
            return False
        if self.begins == "blank":
            return self.cursor.blank >= offset
        return self.cursor.next >= offset and (self.begins == "line" or self.cursor.peek()[0].startswith(b"<doc "))

    def _whole_block(self, data: bytes) -> Iterator[str]:
        """Yields the lines of a block; nothing, and the block is put back, where a line needs a closer look."""
        cursor = self.cursor
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text or len(data) > self.longest:
            cursor.put_back(data)
            return
        if cursor.next == 0:
            text = text.removeprefix("\ufeff")
        raws, lines = data.split(b"\n"), text.split("\n")
        if not raws[-1]:
            raws.pop(), lines.pop()  # behind the last line break stands nothing
        end, strip = cursor.next + len(data), self.strip
        for raw, line in zip(raws, lines, strict=True):
            cursor.start, cursor.next = cursor.next, cursor.next + len(raw) + 1
            cursor.lines += 1
            yield line.strip(strip)
        cursor.next = end  # the last line may lack its break
        cursor.blank = -1 if raws[-1] and not raws[-1].isspace() else cursor.start

    def _decode(self, raw: bytes) -> str | None:
        """Returns the text of a line; None where it is bad and to be dropped."""
        first = self.cursor.start == 0
        if len(raw) > self.longest:
            return self._bad(
                f"longer than {self.longest:,} bytes{_other_ends(raw)}. Text needs line breaks: one sentence, paragraph or "
                "document a line. --on_bad_text=drop leaves such lines out.",
                None,
            )
        try:
            text = raw.decode("utf-8")
            problem = raw.find(b"\0")
        except UnicodeDecodeError as error:
            text, problem = "", error.start
        if problem < 0:
            return (text.removeprefix("\ufeff") if first else text).strip(self.strip)
        head = beginning(self.path, encodings.LOOKED_AT, self.encoding)
        if name := encodings.wide(head):
            raise DataError(encodings.wide_message(self.path, head, name))
        if raw[problem]:
            own = beginning(self.path, encodings.LOOKED_AT)
            found = encodings.bad_bytes(raw, problem, self.encoding, not first, head, head if first else b"", own)
        else:
            found = f"not plain text: a NUL at byte {problem + 1} of the line. Is it a binary file? If not, take it out"
        offset = "" if self.encoding != encodings.UTF_8 else f" (byte offset {self.cursor.start + problem} of the file)"
        return self._bad(f"{found}, or go on with --on_bad_text=replace or drop{offset}.", raw.replace(b"\0", b"\xff"))

    def _bad(self, message: str, raw: bytes | None) -> str | None:
        """Replaces, drops or reports a bad line; without `raw` it cannot be replaced."""
        way = self.reading.on_bad_text
        if way == "fail" or (way == "replace" and raw is None):
            raise DataError(f"{self.place}: {message}")
        self.monitor.counts["bad_text_dropped" if way == "drop" else "bad_text_replaced"] += 1
        return None if way == "drop" else raw.removeprefix(_BOM).decode("utf-8", "replace").strip(self.strip)


def _other_ends(raw: bytes) -> str:
    """Returns what stands where line feeds should in a text that has none; nothing where nothing does."""
    ends = {"carriage returns (CR)": "\r", "U+2028": "\u2028", "U+2029": "\u2029", "U+0085": "\x85"}
    counts = {name: raw.count(end.encode()) for name, end in ends.items()}
    name = max(counts, key=counts.get)
    if counts[name] < 10:
        return ""
    code = "".join(f"\\x{byte:02x}" for byte in ends[name].encode())
    return (
        f" without a line feed, but with {counts[name]:,} {name} in them (`sed 's/{code}/\\n/g'` makes lines of them)"
    )


def _line_number(path: str, position: int) -> int:
    with open(path, "rb") as file:
        number, left = 1, position
        while left > 0 and (block := file.read(min(left, _STEP))):
            number += block.count(b"\n")
            left -= len(block)
    return number
