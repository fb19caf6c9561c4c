"""Splits free text into sentences, in English and in Chinese."""

import re
from collections.abc import Callable, Iterable

# Closing quotes and brackets stay with the sentence that they close.
_CHINESE_CLOSING = "”’」』）)\\]】》〉〗﹂﹄"
# ASCII marks inside an address or a name (http://a.cn/?id=1, Yahoo!7) end nothing, nor does a full stop inside a number.
_CHINESE_END = re.compile(
    rf"(?:(?:[。！？；…]|(?<![A-Za-z0-9/])[!?]|[!?](?![A-Za-z0-9=&_%#/])|(?<=[\u3400-\u9fff])\.(?=\s|$))[{_CHINESE_CLOSING}]*)+"
)
_ENGLISH_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]»]*\s+(?=[\"'“‘(\[«]?[A-ZÀ-ÖØ-Þ0-9])")
_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs dr prof st mt ft vs e.g i.e cf al approx dept est gen col capt lt sgt maj rev hon pres gov sen rep "
    "univ assn bros ave blvd viz ca resp jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
# "no. 3", but "I said no."
_BEFORE_NUMBERS = frozenset("no nos fig figs eq eqs vol vols p pp sec ch art ref refs".split())
_MAY_END = frozenset("jr sr etc inc ltd co corp ph.d".split())  # and "U.S.", "p.m.", "I.": the next word decides
_DOTTED = re.compile(r"[A-Za-z](?:\.[A-Za-z])*")
_OPENERS = frozenset(
    "the a an he she it they we i you this that these those there here in on at by for from with but and so however when "
    "while after before if as his her its their our my what why how who where".split()
)
_WORD = re.compile(r"[\"'“‘(\[«]?([^\W\d_]+)")


def split_english(text: str) -> list[str]:
    """Sentences of a paragraph. A full stop after an abbreviation or initial ends one only before a usual first word."""
    sentences, start = [], 0
    for match in _ENGLISH_END.finditer(text):
        if match[0][0] == "." and match[0][1] not in ".!?…" and _goes_on(text, start, match):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _goes_on(text: str, start: int, match: re.Match) -> bool:
    """Returns whether a sentence goes on behind a full stop, by the word before it and the one behind it."""
    before = text[max(start, match.start() - 20) : match.start()].rsplit(None, 1)
    word = before[-1].lstrip("(\"'“‘[«") if before else ""
    lowered = word.lower()
    if lowered in _ABBREVIATIONS:
        return True
    if lowered in _BEFORE_NUMBERS:
        return text[match.end()].isdigit()
    if lowered in _MAY_END or (_DOTTED.fullmatch(word) and (word.isupper() or "." in word)):
        following = _WORD.match(text, match.end())
        return (
            following is None
            or following[1].lower() not in _OPENERS
            or following[1].isupper()
            and len(following[1]) > 1
        )
    # The number of a list entry, "2. Stir well", opens the sentence that follows.
    return word.isdigit() and len(word) <= 3 and not text[start : match.start() - len(word)].strip()


def split_chinese(text: str) -> list[str]:
    """Sentences of a paragraph, each with its closing punctuation."""
    sentences, start = [], 0
    for match in _CHINESE_END.finditer(text):
        if match.end() <= start:
            continue
        end = match.end()
        # A straight quote closes where one is open.
        if text[end : end + 1] == '"' and text.count('"', start, end) % 2:
            end += 1
        sentences.append(text[start:end].strip())
        start = end
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


SPLITTERS: dict[str, Callable[[str], list[str]]] = {"en": split_english, "zh": split_chinese}


def join_lines(lines: Iterable[str], language: str) -> str:
    """Joins the hard-wrapped lines of a paragraph: with blanks in English, without in Chinese."""
    return ("" if language == "zh" else " ").join(line.strip() for line in lines)
