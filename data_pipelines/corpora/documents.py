"""What the readers of raw text give to the stages, and the stages to one another."""

import dataclasses
from collections.abc import Callable, Iterator

from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError

LONGEST_PARAGRAPH = 1_000_000  # characters; a longer one has no line breaks, or is not text
LONGEST_DOCUMENT = 1000  # sentences; a longer document is cut, so that a file without blank lines needs little memory


@dataclasses.dataclass(frozen=True)
class Document:
    """Sentences that belong together, in order; the turns of a dialogue; or a text and its translation.

    Attributes:
        sentences: the text of each sentence; never empty strings.
        source: file and byte offset (or number of the row) where the document begins, for messages.
    """

    sentences: list[str]
    source: str


def from_text(
    text: str, reading: Reading, monitor: Monitor, source: str, place: Callable[[], str] | None = None
) -> Iterator[Document]:
    """The document of one text in a field of a record: each of its lines is a paragraph of whole sentences.

    Args:
        place: gives file and line, for messages; None where that is `source`.

    Raises:
        DataError: a line is endless, unless `on_bad_text` drops it.
    """
    lines = kept_lines(text, reading, monitor, place or (lambda: source))
    yield from limited([s for line in lines for s in reading.split(line.strip()) if s], source)


def kept_lines(text: str, reading: Reading, monitor: Monitor, place: Callable[[], str]) -> list[str]:
    """The lines of a text; those that are endless are an error, or are left out where bad text is dropped."""
    lines = text.splitlines()
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


def limited(sentences: list[str], source: str) -> Iterator[Document]:
    """The sentences as one document, or as several where they exceed `LONGEST_DOCUMENT`; nothing without sentences."""
    for start in range(0, len(sentences), LONGEST_DOCUMENT):
        yield Document(sentences[start : start + LONGEST_DOCUMENT], source)
