"""What the readers of raw text give to the stages, and the stages to one another."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator

from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError

LONGEST_PARAGRAPH = 1_000_000  # characters; a longer one has no line breaks, or is not text
# What Unicode calls white space, as byte BPE parts it; `str.isspace` calls some separators of files so too.
BLANKS = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_BEFORE_BLANK = re.compile(f"(?<=[^{BLANKS}])(?=[{BLANKS}])")
LONG_PART = 1 << 16  # characters of a line that stay together
LONGEST_DOCUMENT = 1000  # sentences; a longer document is cut, so that a file without blank lines needs little memory


@dataclasses.dataclass(frozen=True)
class Document:
    """Sentences that belong together, in order; the turns of a dialogue; or a text and its translation.

    Attributes:
        sentences: the text of each sentence; never empty strings.
        source: file and byte offset (or number of the row) where the document begins, for messages.
        ends: whether the text ends here; False where the next `Document` goes on with it.
    """

    sentences: list[str]
    source: str
    ends: bool = True


def from_text(
    text: str, reading: Reading, monitor: Monitor, source: str, place: Callable[[], str] | None = None
) -> Iterator[Document]:
    """Yields the document of one text in a field of a record: each of its lines is a paragraph of whole sentences, or verbatim.

    Args:
        place: gives file and line, for messages; None where that is `source`.

    Raises:
        DataError: a line is endless, unless `on_bad_text` drops it.
    """
    if reading.verbatim:
        yield from chain_parts(with_blanks(text.split("\n")), source)
        return
    lines = kept_lines(lines_of(text), reading, monitor, place or (lambda: source))
    yield from split_long([s for line in lines for s in reading.split(line.strip()) if s], source)


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, without their ends: LF or CR LF, as in files. Nothing else ends a line."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def kept_lines(lines: list[str], reading: Reading, monitor: Monitor, place: Callable[[], str]) -> list[str]:
    """Returns the lines of a text without those that are endless: these are an error, or are left out where bad text is
    dropped."""
    longest = max(map(len, lines), default=0)
    if longest <= LONGEST_PARAGRAPH:
        return lines
    if reading.on_bad_text != "drop":
        raise DataError(
            f"{place()}: a paragraph of {longest:,} characters without a line break, more than {LONGEST_PARAGRAPH:,}. "
            "Text needs line breaks; --on_bad_text=drop leaves such paragraphs out."
        )
    kept = [line for line in lines if len(line) <= LONGEST_PARAGRAPH]
    monitor.counts["bad_text_dropped"] += len(lines) - len(kept)
    return kept


def split_long(sentences: list[str], source: str) -> Iterator[Document]:
    """Yields the sentences as one document, or as several where they exceed `LONGEST_DOCUMENT`; nothing without sentences."""
    for start in range(0, len(sentences), LONGEST_DOCUMENT):
        yield Document(sentences[start : start + LONGEST_DOCUMENT], source)


def with_blanks(lines: Iterable[str], tail: str = "") -> Iterator[str]:
    """Yields the text of lines in parts, side by side: each line that is not blank, behind the blanks and line ends before it.

    No piece of byte BPE reaches from what is no blank to a blank, so the pieces of the parts are those of the text. Long lines are
    several parts.

    Args:
        lines: without their line ends.
        tail: what stands behind the last line.
    """
    held, blanks = "", ""
    for number, line in enumerate(lines):
        blanks += "\n" * (number > 0)
        text = line.rstrip(BLANKS)
        if not text:
            blanks += line
            continue
        if held:
            yield held
        *first, held = cut_before_blanks(blanks + text)
        yield from first
        blanks = line[len(text) :]
    if held:
        yield held + blanks + tail


def cut_before_blanks(text: str) -> Iterator[str]:
    """Cuts a text into parts of `LONG_PART` characters or a little more, each before a blank that stands behind what is none."""
    begin = 0
    while len(text) - begin > LONG_PART:
        found = _BEFORE_BLANK.search(text, begin + LONG_PART)
        end = found.start() if found else len(text)
        yield text[begin:end]
        begin = end
    if begin < len(text):
        yield text[begin:]


def chain_parts(parts: Iterable[str], source: str) -> Iterator[Document]:
    """Yields the parts of a text as one document, or as several that go on with one another where they exceed
    `LONGEST_DOCUMENT`."""
    kept: list[str] = []
    for part in parts:
        if len(kept) == LONGEST_DOCUMENT:
            yield Document(kept, source, ends=False)
            kept = []
        kept.append(part)
    if kept:
        yield Document(kept, source)
