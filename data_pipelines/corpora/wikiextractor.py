"""The output of WikiExtractor: articles between `<doc …>` and `</doc>`, or JSON lines (its option --json)."""

import re
from collections.abc import Iterator

from data_pipelines.corpora import json_lines
from data_pipelines.corpora.documents import LONGEST_DOCUMENT, Document, limited
from data_pipelines.corpora.lines import Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError
from data_pipelines.text.html_markup import unescape

_TITLE = re.compile(r'title="(.*?)"(?: |>)')


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """An article makes a document, without its title; lines are paragraphs of whole sentences."""
    sentences: list[str] = []
    title = opened = None
    lines = Lines(piece, "doc", reading, monitor)
    for line in lines:
        if line.startswith("<doc "):
            title, opened = _TITLE.search(line), lines.source
            title = unescape(title[1]) if title else None
        elif line == "</doc>" and opened:
            monitor.counts["empty_documents"] += not sentences
            yield from limited(sentences, opened)
            sentences, opened = [], None
        elif line and opened is None:
            raise DataError(f"{lines.place}: text outside of <doc …> and </doc>. Is this the output of WikiExtractor?")
        elif line and line == title:
            title = None
        elif line:
            sentences += reading.split(unescape(line))
            if len(sentences) >= LONGEST_DOCUMENT:
                yield from limited(sentences, opened)
                sentences = []
    if opened:
        raise DataError(f"{piece.path}: ends inside an article, without </doc>. Was it copied whole?")


def read_json(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """The same, from lines like {"id": …, "title": …, "text": …}."""
    yield from json_lines.read(piece, reading, monitor, drop_title=True)
