"""Where words begin: segmenters for text that is written without blanks, and their alignment with word pieces."""

import importlib.metadata
import logging
from collections.abc import Callable

from data_pipelines.errors import UsageError
from data_pipelines.text.wordpiece import Pieces

Segment = Callable[[str], list[int]]  # text -> the number of the word that each character belongs to


def segment_with_jieba(text: str) -> list[int]:
    """Word numbers of all characters, by jieba's default dictionary."""
    import jieba

    return [number for number, word in enumerate(jieba.cut(text)) for _ in word]


def segment_at_blanks(text: str) -> list[int]:
    """Word numbers of all characters of text whose words are already parted by blanks."""
    numbers, number = [], 0
    for character in text:
        number += character.isspace()
        numbers.append(number)
    return numbers


def segmenter(name: str) -> Segment | None:
    """The segmenter of that name: jieba, presegmented, or none.

    Raises:
        UsageError: the name is unknown.
    """
    if name == "none":
        return None
    if name == "presegmented":
        return segment_at_blanks
    if name == "jieba":
        import jieba

        jieba.setLogLevel(logging.WARNING)
        jieba.initialize()
        return segment_with_jieba
    raise UsageError(f"--segmenter={name}: unknown. Known: jieba, presegmented, none.")


def describe(name: str) -> dict:
    """The segmenter and its version, for the manifest."""
    version = importlib.metadata.version("jieba") if name == "jieba" else None
    return {"segmenter": name, "segmenter_version": version}


def align(pieces: Pieces, words: list[int]) -> list[int] | None:
    """Marks with 1 the pieces that open a word.

    Args:
        pieces: the pieces of a text, with their character spans.
        words: the word number of each character of the text.

    Returns:
        The marks; or None where a piece covers characters of two words, so that pieces and words disagree.
    """
    starts, previous = [], -1
    for first, end in pieces.spans:
        word = words[first]
        if words[end - 1] != word:
            return None
        starts.append(int(word != previous))
        previous = word
    return starts
