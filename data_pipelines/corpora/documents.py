"""What the readers of raw text give to the stages, and the stages to one another."""

import dataclasses
from collections.abc import Callable, Iterator

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


def from_text(text: str, split: Callable[[str], list[str]], source: str) -> Iterator[Document]:
    """The document of one text in a field of a record: each of its lines is a paragraph of whole sentences."""
    yield from limited([s for line in text.splitlines() for s in split(line.strip()) if s], source)


def limited(sentences: list[str], source: str) -> Iterator[Document]:
    """The sentences as one document, or as several where they exceed `LONGEST_DOCUMENT`; nothing without sentences."""
    for start in range(0, len(sentences), LONGEST_DOCUMENT):
        yield Document(sentences[start : start + LONGEST_DOCUMENT], source)
