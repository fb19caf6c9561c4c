"""The units by which texts are compared: lower-case alphanumeric words, and every Chinese character by itself."""

import re

_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_UNIT = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+")


def units(text: str) -> list[str]:
    """Words of letters and digits in lower case; punctuation, blanks and underscores part them and are left out.

    A run of Chinese characters has no words before it is segmented, so each of them is a unit.
    """
    return _UNIT.findall(text.lower())


def shingles(sequence: list[str], size: int) -> list[str]:
    """All runs of `size` units, joined by blanks; the whole where it is shorter; none where it is empty."""
    if len(sequence) <= size:
        return [" ".join(sequence)] if sequence else []
    return [" ".join(sequence[i : i + size]) for i in range(len(sequence) - size + 1)]
