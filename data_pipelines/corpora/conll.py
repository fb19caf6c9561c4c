"""Reads tagged words: CoNLL (a word a line, columns parted by blanks or tabs, a blank line ends a sentence), CoNLL-U."""

import dataclasses
from collections.abc import Iterator

from data_pipelines.corpora.labelled import kind_of
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError, UsageError

CONLL_U = (1, 3)  # the columns FORM and UPOS


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """Words and the tag of each; `lines` are where they stand, counted from 1."""

    words: list[str]
    tags: list[str]
    lines: list[int]


def read_conll(path: str, word_column: int | None = None, tag_column: int | None = None) -> Iterator[TaggedSentence]:
    """The sentences of a file; `-DOCSTART-` lines, comments of CoNLL-U, its multiword tokens and empty nodes are left out.

    Args:
        word_column: counted from 0; None takes the first, in `.conllu` the second.
        tag_column: None takes the last, in `.conllu` the fourth (universal part of speech).

    Raises:
        DataError: a line has too few columns, or another number than the lines before it.
    """
    is_conll_u = kind_of(path) == ".conllu"
    usual = CONLL_U if is_conll_u else (0, -1)
    word, tag = (u if given is None else given for given, u in zip((word_column, tag_column), usual, strict=True))
    if word == tag:
        raise UsageError(f"{path}: --text_column and --label_column are the same column ({word}).")
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    width, separator = None, None
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip() or line.startswith("-DOCSTART-"):
                if words:
                    yield TaggedSentence(words, tags, lines)
                words, tags, lines = [], [], []
                continue
            if is_conll_u and line.startswith("#"):
                continue
            if width is None:
                separator = "\t" if "\t" in line else None  # None: any blanks
            fields = line.split(separator)
            width = width or len(fields)
            if len(fields) != width or width <= max(word, tag, 1):
                raise DataError(
                    f"{path}, line {number}: {len(fields)} column(s), expected "
                    + (f"{width} as before" if len(fields) != width else f"at least {max(word, tag, 1) + 1}")
                    + f", parted by {'tabs' if separator else 'blanks'}. Found: {line[:60]!r}. A sentence ends with a "
                    "blank line; name the columns with --text_column and --label_column, counted from 0."
                )
            if is_conll_u and not fields[0].isdigit():
                continue
            words.append(fields[word])
            tags.append(fields[tag])
            lines.append(number)
    if words:
        yield TaggedSentence(words, tags, lines)
