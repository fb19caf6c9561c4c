"""Splits free text into sentences, in English and in Chinese."""

import re
from collections.abc import Callable, Iterable

# Closing quotes and brackets stay with the sentence that they close.
_CHINESE_SENTENCE = re.compile(r"[^。！？；…!?]*(?:[。！？；…!?]+[”’」』）)\]】》]*)+|[^。！？；…!?]+")
_ENGLISH_END = re.compile(r"(?<![.!?])[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof sr jr st vs etc e.g i.e cf al fig eq no vol pp inc ltd co corp dept est approx "
    "jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m".split()
)


def split_english(text: str) -> list[str]:
    """Sentences of a paragraph. A full stop after an abbreviation or a single capital does not end one."""
    sentences, start = [], 0
    for match in _ENGLISH_END.finditer(text):
        before = text[max(start, match.start() - 20) : match.start()].rsplit(None, 1)
        word = before[-1].lstrip("(\"'“‘[") if before else ""
        if text[match.start()] == "." and (word.lower() in _ABBREVIATIONS or re.fullmatch(r"[A-Z]", word)):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def split_chinese(text: str) -> list[str]:
    """Sentences of a paragraph, each with its closing punctuation."""
    return [part.strip() for part in _CHINESE_SENTENCE.findall(text) if part.strip()]


SPLITTERS: dict[str, Callable[[str], list[str]]] = {"en": split_english, "zh": split_chinese}


def join_lines(lines: Iterable[str], language: str) -> str:
    """Joins the hard-wrapped lines of a paragraph: with blanks in English, without in Chinese."""
    return ("" if language == "zh" else " ").join(line.strip() for line in lines)
