"""Reads stories whose questions have no answers yet: plain lines, or bAbI's numbered ones."""

import re
from collections.abc import Iterator

from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError
from data_pipelines.text.sentences import split_chinese, split_english

_NUMBERED = re.compile(r"(\d+) +(\S.*)")
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")


def read_stories(path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (sentences, question) of each question of a file, about the sentences of its story that stand before it.

    A line is a sentence, or a question, which ends with a question mark. A story ends with a blank line; of numbered lines,
    where the numbers begin again with 1. What stands behind a tab, as bAbI's answers, is not read.

    Raises:
        DataError: the file holds no question, or a question has no sentence before it.
    """
    empty, sentences = True, []
    with open_text(path) as file:
        for line_number, line in enumerate(file, 1):
            line = line.strip()
            if not line:
                sentences = []
                continue
            if numbered := _NUMBERED.fullmatch(line):
                sentences = [] if numbered[1] == "1" else sentences
                line = numbered[2]
            text = line.split("\t")[0].strip()
            if not text.endswith(("?", "？")):
                sentences = [*sentences, text]
                continue
            if not sentences:
                raise DataError(
                    f"{path}, line {line_number}: no sentence of a story stands before the question {text!r}."
                )
            empty = False
            yield tuple(sentences), text
    if empty:
        raise DataError(f"{path}: holds no question; a line that is one ends with a question mark.")


def split_story(text: str) -> tuple[str, ...]:
    """Returns the sentences of a story that is written on one line."""
    return tuple((split_chinese if _IDEOGRAPH.search(text) else split_english)(text))
