"""Lists of words, phrases or entities, and where they stand in text: the longest match, from left to right."""

import hashlib
import os
import re

from data_pipelines.errors import DataError

# "word", "word<tab>frequency" or jieba's "word frequency tag". A phrase may hold blanks and numbers, so these follow a tab there.
_ENTRY = re.compile(r"(?P<word>.*?)(?:\s+(?P<frequency>\d+)(?:\s+(?P<tag>[a-zA-Z]+))?)?\s*")
_PHRASE = re.compile(r"(?P<word>[^\t]*)(?:\t\s*(?P<frequency>\d+)(?:\s+(?P<tag>[a-zA-Z]+))?)?\s*")


class Lexicon:
    """Entries of text files, one a line; a frequency and a tag may follow, and `#` opens a line of comment.

    Args:
        paths: comma-separated files in UTF-8.
        flag: the flag that named them, for messages.
        has_phrases: whether an entry may be several words; then only a tab parts it from its frequency.

    Raises:
        DataError: a file is missing, is not UTF-8, has a line of another form, or none holds an entry.
    """

    def __init__(self, paths: str, flag: str = "--lexicon", has_phrases: bool = False):
        self.entries: dict[str, int | None] = {}  # with their frequencies
        digest = hashlib.sha256()
        for path in filter(None, (part.strip() for part in paths.split(","))):
            if not os.path.isfile(path):
                raise DataError(f"{flag}={path}: no such file; a lexicon holds one entry a line.")
            with open(path, "rb") as file:
                raw = file.read()
            digest.update(hashlib.sha256(raw).digest())
            try:
                lines = raw.decode("utf-8-sig").split("\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{flag}={path}: not valid UTF-8 at byte {error.start}; convert the file.") from None
            for number, line in enumerate(lines, 1):
                if line.startswith("#"):
                    continue
                found = (_PHRASE if has_phrases else _ENTRY).fullmatch(line.strip())
                if found is None:
                    raise DataError(
                        f"{flag}={path}, line {number}: {line[:60]!r}; expected a phrase, or a phrase, a tab and its frequency."
                    )
                if found["word"]:
                    self.entries[found["word"].strip()] = int(found["frequency"]) if found["frequency"] else None
        if not self.entries:
            raise DataError(f"{flag}={paths}: holds no entry; expected one word or phrase a line.")
        self.sha256 = digest.hexdigest()
        self._known = {fold(word) for word in self.entries}
        lengths: dict[str, set[int]] = {}
        for word in self._known:
            lengths.setdefault(word[:2], set()).add(len(word))
        for head, found in lengths.items():
            found |= {1} if head[0] in lengths else set()
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}

    def __len__(self) -> int:
        return len(self.entries)

    def matches(self, text: str) -> list[tuple[int, int]]:
        """Returns the first and one past the last character of each match. Case does not matter; Latin words match whole."""
        text = fold(text)
        found, place, end = [], 0, len(text)
        while place < end:
            lengths = self._lengths.get(text[place : place + 2]) or self._lengths.get(text[place])
            for length in lengths or ():
                stop = place + length
                if stop <= end and text[place:stop] in self._known and _whole(text, place, stop):
                    found.append((place, stop))
                    place = stop - 1
                    break
            place += 1
        return found

    def word_numbers(self, text: str) -> list[int]:
        """Returns the number of the word of each character: a match is a word, and so is each run of Latin letters and digits.

        All other characters are words by themselves (forward maximum matching).
        """
        numbers, number, place = [], -1, 0
        for first, stop in [*self.matches(text), (len(text), len(text))]:
            while place < first:
                number += place == 0 or not (_joins(text[place - 1]) and _joins(text[place]))
                numbers.append(number)
                place += 1
            if stop > first:
                number += 1
                numbers += [number] * (stop - first)
                place = stop
        return numbers


def fold(text: str) -> str:
    """Returns lower case, character by character, so that places stay."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _joins(character: str) -> bool:
    """Returns whether a character is part of a word that is written in letters with blanks around."""
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff"


def _whole(text: str, first: int, stop: int) -> bool:
    """Returns whether a match cuts no Latin word."""
    return not (
        (first > 0 and _joins(text[first]) and _joins(text[first - 1]))
        or (stop < len(text) and _joins(text[stop - 1]) and _joins(text[stop]))
    )
