"""The output of WikiExtractor: articles between `<doc …>` and `</doc>`, or JSON lines (its option --json)."""

import re
from collections.abc import Iterator

from data_pipelines.corpora import json_lines
from data_pipelines.corpora.documents import LONGEST_DOCUMENT, Document, split_long
from data_pipelines.corpora.lines import Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError
from data_pipelines.text.html_markup import unescape

# The title may hold quotes; other attributes may follow it.
_TITLE = re.compile(r"""\btitle=(["'])(.*?)\1(?:\s+[\w:-]+=(?:"[^"]*"|'[^']*'))*\s*>\s*$""")
# How some versions write it in the text.
_MARKED = re.compile(r"^(?:<h1>(.*)</h1>|# (.*)|=+ ?(.*?) ?=+)$", re.IGNORECASE)


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document for each article, without its title; lines are paragraphs of whole sentences."""
    sentences: list[str] = []
    title = opened = None
    begins = False  # whether no line of the article was read yet
    lines = Lines(piece, "doc", reading, monitor)
    for line in lines:
        if line.startswith("<doc "):
            if opened:
                raise DataError(
                    f"{lines.place}: an article begins inside of another one, which lacks its </doc>. Was it copied whole?"
                )
            title, opened, begins = _title(line), lines.source, True
        elif line == "</doc>" and opened:
            monitor.counts["empty_documents"] += not sentences
            yield from split_long(sentences, opened)
            sentences, opened = [], None
        elif line and opened is None:
            raise DataError(f"{lines.place}: text outside of <doc …> and </doc>. Is this the output of WikiExtractor?")
        elif line and (line == title or (begins and title and title in _spellings(line))):
            title, begins = None, False
        elif line:
            begins = False
            sentences += reading.split(unescape(line))
            if len(sentences) >= LONGEST_DOCUMENT:
                yield from split_long(sentences, opened)
                sentences = []
    if opened:
        raise DataError(f"{piece.path}: ends inside an article, without </doc>. Was it copied whole?")


def read_json(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields the same, from lines like {"id": …, "title": …, "text": …}."""
    yield from json_lines.read(piece, reading, monitor, drop_title=True)


def _title(line: str) -> str | None:
    found = _TITLE.search(line)
    return unescape(found[2]).strip() if found else None


def _spellings(line: str) -> set[str]:
    """Returns what a first line may say of the title: with escaped signs, marked as a heading, or with a full stop behind it."""
    marked = _MARKED.match(line)
    plain = next(filter(None, marked.groups()), line) if marked else line
    return {unescape(each).strip() for each in (line, plain, plain.removesuffix("."), plain.replace("_", " "))}
