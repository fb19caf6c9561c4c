"""Plain text: one sentence a line with blank lines between documents, free prose, one document a line, or as it is."""

import itertools
from collections.abc import Iterator

from data_pipelines.corpora.documents import LONGEST_DOCUMENT, Document, chain_parts, lines_of, split_long, with_blanks
from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.text.sentences import SPLITTERS, join_lines

_ONE = 1.1  # sentences a line, about, where each line is one
_FEW = 8  # lines or paragraphs; fewer say nothing of a layout
_CHINESE_ENDS = "。！？…；：，、”’」』）》.!?;:,\"')"
PROSE_DOCUMENT = 32  # sentences; paragraphs of free prose are gathered to about this


def guess_layout(sample: str, language: str) -> str:
    """Chooses between the three by sentences a line, by lines between blank ones, and by where lines end."""
    lines = lines_of(sample)
    lines = lines[:-1] if len(lines) > 1 else lines
    texts = [line for line in lines if line.strip()]
    per_line = sum(len(SPLITTERS[language](line)) for line in texts) / max(1, len(texts))
    is_chinese, sizes = language == "zh", [len(block) for block in _blocks(lines)]
    # Indents open paragraphs, unless each line is one sentence of a block of several.
    in_blocks = len(sizes) >= _FEW and per_line <= _ONE and sum(size > 1 for size in sizes) > 0.6 * len(sizes)
    if is_chinese and ((_is_indented(texts) and not in_blocks) or _is_wrapped_chinese(lines)):
        return "text"
    if len(texts) == len(lines):
        # Without blank lines, many sentences a line mean that each line is a document.
        return "documents" if per_line > 2 else "sentences"
    # English prose that is broken into lines ends most of them inside a sentence.
    wrapped = sum(line.rstrip()[-1].isalpha() or line.rstrip()[-1] == "," for line in texts) / max(1, len(texts))
    if per_line > 2 or (wrapped > 0.5 and not is_chinese):
        return "text"
    # Blank lines around every line part paragraphs: a document of one sentence would have no next one.
    single = sum(size == 1 for size in sizes)
    return "text" if len(sizes) >= _FEW and single > 0.6 * len(sizes) else "sentences"


def _blocks(lines: list[str]) -> list[list[str]]:
    """Returns the lines between blank ones, stripped."""
    grouped = itertools.groupby((line.strip() for line in lines), bool)
    return [list(group) for is_text, group in grouped if is_text]


def _is_indented(texts: list[str]) -> bool:
    """Returns whether lines begin as Chinese paragraphs do, with two wide blanks."""
    return len(texts) >= _FEW and sum(line.startswith("\u3000\u3000") for line in texts) > 0.5 * len(texts)


def _is_wrapped_chinese(lines: list[str]) -> bool:
    """Returns whether lines are broken at a width: about equally long, and most end inside a sentence.

    A line without a full stop at its end may be a title, so neither alone says enough.
    """
    broken = [line for block in _blocks(lines) for line in block[:-1]]
    if len(broken) < _FEW:
        return False
    lengths = sorted(map(len, broken))
    width = lengths[len(lengths) * 95 // 100]
    full = sum(length >= 0.85 * width for length in lengths)
    inside = sum(line[-1] not in _CHINESE_ENDS for line in broken)
    return full > 0.7 * len(broken) and inside > 0.6 * len(broken) and width > 9


def read_documents(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document a line, in whole sentences."""
    lines = Lines(piece, "line", reading, monitor)
    for line in lines:
        yield from split_long(reading.split(line), lines.source)


def read_sentences(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields documents of which each line is a sentence; a blank line ends one."""
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
            yield from split_long(sentences, opened)
            sentences = []
    yield from split_long(sentences, opened)


def read_verbatim(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields the file as one document, with its line ends and blanks; a line end stands behind its last line. Lines may be of
    any length."""
    lines = Lines(piece, "file", reading, monitor, longest=ENDLESS, strip="\n")
    yield from chain_parts(with_blanks(lines, "\n"), piece.path)
