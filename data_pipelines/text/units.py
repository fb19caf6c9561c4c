"""Where text is parted: for comparing, into lower-case words and single Chinese characters; for BERT's tokenizer."""

import re

_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# BERT's way to part words never looks across these bounds: blanks, of which only those that it parts words at, CJK
# characters, and ASCII punctuation.
_ALONE = "\u3400-\u4dbf\u4e00-\u9fff!-/:-@\\[-`{-~"
CHUNKS = re.compile(f"[{_ALONE}]|[^ \t\r\n{_ALONE}]+")
_UNIT = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+")


def units(text: str) -> list[str]:
    """Returns words of letters and digits in lower case; punctuation, blanks and underscores part them and are left out.

    A run of Chinese characters has no words before it is segmented, so each of them is a unit.
    """
    return _UNIT.findall(text.lower())


def shingles(sequence: list[str], size: int) -> list[str]:
    """Returns all runs of `size` units, joined by blanks; the whole where it is shorter; none where it is empty."""
    if len(sequence) <= size:
        return [" ".join(sequence)] if sequence else []
    return [" ".join(sequence[i : i + size]) for i in range(len(sequence) - size + 1)]
