"""Names in Chinese text: persons, places, organisations and others, as jieba's tagger finds them. A lexicon for ERNIE's masks."""

import collections
import os

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import iterate_table
from data_pipelines.files import whole_file

NAMES = ("nr", "ns", "nt", "nz")  # jieba's tags of persons, places, organisations and other names
LEAST, SHORTEST = 3, 2  # times that a name stands in the text, and characters


def write_lexicon(texts: str, file: str) -> None:
    """Writes the names of a file of JSON lines with `text`, a line each, unless that is done."""
    if os.path.isfile(file):
        return
    from jieba import posseg

    found = collections.Counter(
        word
        for row in iterate_table(texts, Columns("text"), with_labels=False)
        for word, tag in posseg.lcut(row.texts[0])
        if len(word) >= SHORTEST and tag.startswith(NAMES)
    )
    names = sorted(name for name, times in found.items() if times >= LEAST)
    with whole_file(file, "w") as stream:
        stream.write("\n".join(names) + "\n")
