"""How words become a text: with blanks between them, but for scripts that write none."""

import unicodedata
from collections.abc import Sequence


def _is_wide(character: str) -> bool:
    """Ideographs, kana and their punctuation; full-width letters and digits form words as the narrow ones do."""
    width = unicodedata.east_asian_width(character)
    return width == "W" or (width == "F" and not character.isalnum())


def gap(left: str, right: str) -> str:
    """Returns what stands between two words: nothing where both touching characters are Chinese or Japanese."""
    if not left or not right:
        return ""
    return "" if _is_wide(left[-1]) and _is_wide(right[0]) else " "


def join_words(words: Sequence[str]) -> tuple[str, list[int]]:
    """Returns the text of some words, and the character at which each begins."""
    parts, starts, length, previous = [], [], 0, ""
    for word in words:
        between = gap(previous, word)
        starts.append(length + len(between))
        parts += (between, word)
        length += len(between) + len(word)
        previous = word
    return "".join(parts), starts
