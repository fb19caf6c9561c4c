"""Where words begin: segmenters for text that is written without blanks, and their alignment with word pieces."""

import functools
import importlib
import importlib.metadata
import logging
import os
import re
from collections.abc import Callable, Iterable

from data_pipelines.errors import UsageError
from data_pipelines.text.lexicon import Lexicon
from data_pipelines.text.tokenizer import Pieces

Segment = Callable[[str], list[int]]  # text -> the number of the word that each character belongs to
KNOWN = "jieba, jieba_python, lexicon, presegmented, whitespace, ltp:FOLDER, MODULE:FUNCTION, none"

# jieba cuts text into such blocks first. The two implementations differ in blocks that hold one of these signs, and
# outside of blocks at rare characters.
_BLOCK = re.compile(r"([\u4e00-\u9fd5a-zA-Z0-9+#&._%\-]+)")
_SIGNS = re.compile(r"[+#&._%\-]")
_DIFFERENT = re.compile(r"[+#&._%\-\u3400-\u4dbf\u9fd6-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_BETWEEN = re.compile(r"\r\n|.", re.S)
_AT_BLANK = re.compile(r"\s\S*|^\S+")


def number_words(words: Iterable[str]) -> list[int]:
    """Returns words that join to a text -> the number of the word of each character."""
    return [number for number, word in enumerate(words) for _ in word]


def python_jieba(lexicon: Lexicon | None) -> Callable[[str], list[str]]:
    """Returns jieba as it is published, with the entries of a lexicon added to its dictionary."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    for word, frequency in lexicon.entries.items() if lexicon else ():
        tokenizer.add_word(word, frequency)
    return tokenizer.lcut


def fast_jieba(lexicon: Lexicon | None) -> Callable[[str], list[str]]:
    """Returns jieba's dictionary and rules in Rust (rjieba), and jieba itself where the two differ: 1-2, v1.0, C++."""
    import rjieba

    tokenizer = rjieba.Jieba()
    slow = functools.cache(lambda: python_jieba(lexicon))  # its dictionary takes a second to load
    for word, frequency in lexicon.entries.items() if lexicon else ():
        tokenizer.add_word(word, frequency, None)

    def cut(text: str) -> list[str]:
        if not _DIFFERENT.search(text):
            return tokenizer.cut(text)
        found: list[str] = []
        for index, block in enumerate(_BLOCK.split(text)):
            if index % 2 == 0:
                found += _BETWEEN.findall(block)
            else:
                found += slow()(block) if _SIGNS.search(block) else tokenizer.cut(block)
        return found

    return cut


def segment_at_blanks(text: str) -> list[int]:
    """Returns word numbers of all characters of text whose words are already parted by blanks."""
    numbers, number = [], 0
    for character in text:
        number += character.isspace()
        numbers.append(number)
    return numbers


def spans_at_blanks(text: str) -> list[tuple[int, int]]:
    """Returns the spans of equal numbers of `segment_at_blanks`: words, each with the blank in front of it."""
    return [match.span() for match in _AT_BLANK.finditer(text)]


def local_ltp(folder: str) -> Callable[[str], list[str]]:
    """Returns the word segmenter of an LTP model in a local folder; nothing is downloaded.

    Raises:
        UsageError: the folder or the `ltp` package is missing.
    """
    if not os.path.isdir(folder):
        raise UsageError(f"--segmenter=ltp:{folder}: no such folder; name one that holds an LTP 4 model.")
    try:
        from ltp import LTP
    except ImportError:
        raise UsageError(
            f"--segmenter=ltp:{folder}: the package `ltp` is not installed. Install it with `pip install 'xmodels[ltp]'`."
        ) from None
    model = LTP(folder, local_files_only=True)
    return lambda text: model.pipeline([text], tasks=["cws"]).cws[0]


def _found_in(text: str, words: Iterable[str], name: str) -> list[int]:
    """Returns word numbers of the characters by words that stand in the text in this order; what lies between goes before.

    Raises:
        UsageError: a word does not stand there.
    """
    numbers, place = [], 0
    for number, word in enumerate(words):
        start = text.find(word, place)
        if start < 0:
            raise UsageError(
                f"--segmenter={name}: gave the word {word!r}, which does not follow in {text[place : place + 40]!r}. A "
                "segmenter returns the words of its text in order, unchanged."
            )
        place = start + len(word)
        numbers += [number] * (place - len(numbers))
    return numbers + [numbers[-1] if numbers else 0] * (len(text) - len(numbers))


def callable_segmenter(name: str) -> Callable[[str], Iterable[str]]:
    """Returns the function `MODULE:FUNCTION`, which takes a text and gives its words. This runs the user's own code.

    Raises:
        UsageError: it cannot be imported, or is not callable.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    # The last two of names such as "" and ".module".
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UsageError(
            f"--segmenter={name}: cannot be imported ({error}). The module must lie on PYTHONPATH and hold the function."
        ) from None
    if not callable(found):
        raise UsageError(f"--segmenter={name}: is a {type(found).__name__}, not a function.")

    def words_of(text: str) -> list[str]:
        try:
            words = list(found(text))
        except Exception as error:
            raise UsageError(
                f"--segmenter={name}: {type(error).__name__} at the text {text[:40]!r} ({str(error):.200})."
            ) from error
        if not all(isinstance(word, str) for word in words):
            raise UsageError(
                f"--segmenter={name}: gave {words!r:.60}, expected the words of {text[:40]!r}, which are texts."
            )
        return words

    words_of("")  # so that a function of another purpose, such as os.system, gets no text of the corpus
    return words_of


def segmenter(name: str, lexicon: str = "") -> Segment | None:
    """Returns the segmenter of that name, one of `KNOWN`; None for "none".

    Args:
        lexicon: comma-separated files of words, which jieba adds to its own and `lexicon` takes alone.

    Raises:
        UsageError: the name is unknown, or something that it needs is not there.
        DataError: the lexicon cannot be read.
    """
    check(name, lexicon)
    words = Lexicon(lexicon) if lexicon else None
    if name == "none":
        return None
    if name in ("presegmented", "whitespace"):
        return segment_at_blanks
    if name == "lexicon":
        return words.word_numbers
    if name in ("jieba", "jieba_python"):
        cut = (fast_jieba if name == "jieba" else python_jieba)(words)
        return lambda text: number_words(cut(text))
    cut = local_ltp(name.removeprefix("ltp:")) if name.startswith("ltp:") else callable_segmenter(name)
    return lambda text: _found_in(text, cut(text), name)


def check(name: str, lexicon: str) -> None:
    """Raises a UsageError where segmenter and lexicon cannot work together, before any work."""
    if ":" not in name and name not in KNOWN.split(", "):
        raise UsageError(f"--segmenter={name}: unknown. Known: {KNOWN}.")
    if name == "lexicon" and not lexicon:
        raise UsageError("--segmenter=lexicon: name the words with --lexicon=FILE, one a line.")
    if lexicon and name not in ("jieba", "jieba_python", "lexicon"):
        raise UsageError(f"--lexicon: --segmenter={name} does not use one; take jieba or lexicon, or leave it out.")


def describe(name: str, lexicon: str = "") -> dict:
    """Returns the segmenter, its version and the SHA-256 of the lexicon, for the manifest."""
    packages = {"jieba": ["rjieba", "jieba"], "jieba_python": ["jieba"]}.get(
        name, ["ltp"] if name[:4] == "ltp:" else []
    )
    try:
        versions = [importlib.metadata.version(package) for package in packages]
    except importlib.metadata.PackageNotFoundError:
        versions = []  # `segmenter` says what is missing
    return {
        "segmenter": name,
        "segmenter_version": " ".join(f"{p} {v}" for p, v in zip(packages, versions, strict=False)) or None,
        "lexicon_sha256": Lexicon(lexicon).sha256 if lexicon else None,
    }


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
        word = words[min(first, len(words) - 1)]  # an empty span goes with what follows it
        if end > first and words[end - 1] != word:
            return None
        starts.append(int(word != previous))
        previous = word
    return starts


def mark_units(pieces: Pieces, starts: list[int], matches: list[tuple[int, int]]) -> tuple[list[int], int]:
    """Marks with 1 the pieces that open a unit: a match is one unit, and elsewhere units open where `starts` says.

    Args:
        pieces: the pieces of a text, with their character spans.
        starts: 1 where a piece opens a word.
        matches: the first and one past the last character of phrases or entities, in order, without overlap.

    Returns:
        The marks, and how many matches were left out since a piece lies across their bounds.
    """
    spans, marks, place, left_out = pieces.spans, list(starts), 0, 0
    for first, end in matches:
        while place < len(spans) and spans[place][1] <= first:
            place += 1
        stop = place
        while stop < len(spans) and spans[stop][0] < end:
            stop += 1
        if stop == place or spans[place][0] < first or spans[stop - 1][1] > end:
            left_out += 1
            continue
        marks[place:stop] = [1, *[0] * (stop - place - 1)]
        if stop < len(marks):
            marks[stop] = 1
        place = stop
    return marks, left_out
