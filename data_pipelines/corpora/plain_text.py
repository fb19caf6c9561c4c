"""Plain text: one sentence a line with blank lines between documents, free prose, or one document a line."""

from collections.abc import Iterator

from data_pipelines.corpora.documents import LONGEST_DOCUMENT, Document, limited
from data_pipelines.corpora.lines import Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.text.sentences import SPLITTERS, join_lines

PROSE_DOCUMENT = 32  # sentences; paragraphs of free prose are gathered to about this


def guess_layout(sample: str, language: str) -> str:
    """Chooses between the three by the number of sentences a line and by blank lines."""
    lines = sample.splitlines()[:-1] or sample.splitlines()
    texts = [line for line in lines if line.strip()]
    per_line = sum(len(SPLITTERS[language](line)) for line in texts) / max(1, len(texts))
    if len(texts) == len(lines):
        # Without blank lines, many sentences a line mean that each line is a document.
        return "documents" if per_line > 2 else "sentences"
    # English prose that is broken into lines ends most of them inside a sentence; in Chinese a line without a full stop
    # at its end is as often a title.
    wrapped = sum(line.rstrip()[-1].isalpha() or line.rstrip()[-1] == "," for line in texts) / max(1, len(texts))
    return "text" if per_line > 2 or (wrapped > 0.5 and language != "zh") else "sentences"


def read_documents(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """A document a line, in whole sentences."""
    lines = Lines(piece, "line", reading, monitor)
    for line in lines:
        yield from limited(reading.split(line), lines.source)


def read_sentences(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Each line is a sentence; a blank line ends the document."""
    sentences: list[str] = []
    opened = ""
    lines = Lines(piece, "blank", reading, monitor)
    for line in lines:
        if line:
            opened = opened if sentences else lines.source
            sentences.append(line)
        if sentences and (not line or len(sentences) == LONGEST_DOCUMENT):
            yield Document(sentences, opened)
            sentences = []
    if sentences:
        yield Document(sentences, opened)


def read_text(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Paragraphs between blank lines, gathered to documents of about `PROSE_DOCUMENT` sentences."""
    sentences: list[str] = []
    opened = ""
    for paragraph in read_sentences(piece, reading, monitor):  # here a "sentence" is a line of a paragraph
        opened = opened if sentences else paragraph.source
        sentences += reading.split(join_lines(paragraph.sentences, reading.language))
        if len(sentences) >= PROSE_DOCUMENT:
            yield from limited(sentences, opened)
            sentences = []
    yield from limited(sentences, opened)
