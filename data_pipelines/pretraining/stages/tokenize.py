"""Stage: documents of sentences -> documents of marked pieces.

Tokenizing is the dearest step (measured in `benchmarks/data.py`); `stages.chunks` does it where the tokenizer allows.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from data_pipelines.corpora.documents import Document
from data_pipelines.pretraining.stages.chunks import ChunkedTokenizer
from data_pipelines.pretraining.stages.pipe import Stage, in_batches
from data_pipelines.pretraining.stages.word_cache import WordCache
from data_pipelines.text.lexicon import Lexicon
from data_pipelines.text.tokenizer import Pieces, Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN
from data_pipelines.text.words import Segment, align, mark_units

# A piece and its marks travel as one number, so that cutting and truncating treat both alike.
MARK_BITS = 9  # room for marks; bit 0 is 1 where the piece opens a word
# 1 where a piece opens such a unit
MARKS = {"word_start": 1, "phrase_start": 2, "entity_start": 4, "sentence_start": 8}
# Of the word: does it begin with a capital, with a letter at all? Has the piece a letter or digit?
CAPITAL, LETTER, WORDLIKE = 16, 32, 64
# Does the piece stand in another example of its document too, and is there another one? Set by `stages.paragraphs`.
REPEATED, REPEATABLE = 128, 256
WORD_START = MARKS["word_start"]
TOGETHER = 1 << 18  # characters that are tokenized at once


@dataclasses.dataclass
class Tokens:
    """A tokenized document, or several.

    Attributes:
        marked: int32 (N,), see `mark`.
        bounds: where sentences begin and end: sentence i is marked[bounds[i]:bounds[i + 1]]. None is empty.
        ends: see `Document`.
    """

    marked: np.ndarray
    bounds: list[int]
    ends: bool = True


def mark(ids, word_start) -> np.ndarray:
    """Joins ids and marks; `word_start` may hold the bits of other units as well."""
    return np.asarray(ids, np.int32) << MARK_BITS | np.asarray(word_start, np.int32)


def ids_of(marked: np.ndarray) -> np.ndarray:
    return marked >> MARK_BITS


def word_starts_of(marked: np.ndarray) -> np.ndarray:
    return marked & WORD_START


def starts_of(marked: np.ndarray, name: str) -> np.ndarray:
    """Returns whether a piece opens a unit of `MARKS`."""
    return marked & MARKS[name] > 0


def tokenize(
    tokenizer: Tokenizer, segment: Segment | None, statistics: collections.Counter, lexicons: Mapping[str, Lexicon] = {},
    blank: str = "", letters: bool = False, verbatim: bool = False, keeps_words: bool = False,
) -> Stage:  # fmt: skip
    """Turns documents into `Tokens`; empty ones vanish.

    Args:
        segment: gives the words of a sentence; None where the pieces themselves tell (`##`). A sentence whose words
            and pieces disagree falls back to the pieces and is counted.
        statistics: counts documents, sentences, tokens, unknown_tokens and misaligned_sentences; of each lexicon
            phrase_matches and misaligned_phrase_matches (entity_matches, ...).
        lexicons: by mark. Outside of its matches, phrase_start opens at words, and entity_start where the pieces tell (in
            Chinese at each character), as in the stages of ERNIE 1.0 (Sun et al., 2019, section 3.2).
        blank: put before each sentence but the first of a document, as in running text (`Tokenizer.blank`).
        letters: mark `CAPITAL`, `LETTER` and `WORDLIKE` too.
        verbatim: sentences hold the blanks between them.
        keeps_words: give words that the vocabulary lacks numbers of their own (`Vocabulary.numbered`), anew for each stage.
    """
    tokenizer.vocabulary.forget()
    unknown = tokenizer.vocabulary.roles.get(UNKNOWN, -1)
    encoder = Encoder(tokenizer, segment, statistics, lexicons, letters, keeps_words)
    encode = encoder.one_by_one if verbatim else encoder.choose()

    def stage(documents: Iterator[Document]) -> Iterator[Tokens]:
        for batch in in_batches(documents, lambda document: sum(map(len, document.sentences)), TOGETHER):
            marked, bounds = encode(list(_texts(batch, blank)))
            statistics["tokens"] += len(marked)
            ids = ids_of(marked)
            statistics["unknown_tokens"] += int(np.count_nonzero((ids == unknown) | (ids >= len(tokenizer.vocabulary))))
            yield from _documents(batch, marked, bounds.tolist(), statistics)

    return stage


Encoded = tuple[np.ndarray, np.ndarray]  # marked pieces of all texts side by side, and the bounds of each text


class Encoder:
    """Texts -> marked pieces, in one of several ways that give the same; arguments as of `tokenize`."""

    def __init__(
        self, tokenizer: Tokenizer, segment: Segment | None, statistics, lexicons: Mapping[str, Lexicon],
        letters: bool = False, keeps_words: bool = False,
    ):  # fmt: skip
        self.number = tokenizer.vocabulary.numbered if keeps_words and tokenizer.is_open else None
        self.tokenizer, self.segment, self.statistics, self.lexicons = tokenizer, segment, statistics, lexicons
        self.letters = letters
        self.chunked = _chunked(tokenizer) if tokenizer.chunks else None

    def choose(self) -> Callable[[list[str]], Encoded]:
        """Returns the fastest way that fits."""
        if self.letters or self.lexicons or self.number or (self.segment is not None and self.chunked is None):
            return self.one_by_one
        if self.chunked is None:
            has_words = self.tokenizer.parts_at_blanks or self.tokenizer.drops_blanks
            return _cached(self.tokenizer) if has_words else self.one_by_one
        return self.in_chunks_of_words if self.segment is not None else self.in_chunks

    def one_by_one(self, texts: list[str]) -> Encoded:
        """Returns each text with marks of its own."""
        number = self.number or list
        encodings = self.tokenizer.encode_batch(texts)
        found = [
            mark(number(pieces.ids), self.marks(text, pieces)) for text, pieces in zip(texts, encodings, strict=True)
        ]
        return np.concatenate(found), np.cumsum([0, *map(len, found)])

    def marks(self, text: str, pieces: Pieces) -> np.ndarray:
        """Returns the marks of the pieces of a text: words, and the units of the lexicons."""
        starts = align(pieces, self.segment(text)) if self.segment is not None else pieces.word_start
        if starts is None:
            self.statistics["misaligned_sentences"] += 1
            starts = pieces.word_start
        marks = np.asarray(starts, np.int32)
        for name, lexicon in self.lexicons.items():
            matches = lexicon.matches(text)
            units, left_out = mark_units(pieces, pieces.word_start if name == "entity_start" else starts, matches)
            marks = marks | MARKS[name] * np.asarray(units, np.int32)
            self.statistics[f"{name.removesuffix('_start')}_matches"] += len(matches)
            self.statistics[f"misaligned_{name.removesuffix('_start')}_matches"] += left_out
        return marks | letter_marks(text, pieces) if self.letters else marks

    def in_chunks(self, texts: list[str]) -> Encoded:
        """Returns chunk by chunk, where the pieces tell the words."""
        found = self.chunked(texts)
        return found.marked, found.bounds

    def in_chunks_of_words(self, texts: list[str]) -> Encoded:
        """Returns chunk by chunk, with the words of the segmenter."""
        found = self.chunked(texts)
        marked, bounds, (begins, ends) = found.marked, found.bounds, found.origins()
        numbers = [number for text in texts for number in [*self.segment(text), -1]]  # -1 at the line break between two
        words = np.array(numbers, np.int64)
        first, last = words[begins], words[ends - 1]
        starts = np.diff(first, prepend=-1) != 0
        starts[bounds[:-1][np.diff(bounds) > 0]] = True
        marked = marked & ~WORD_START | starts
        # Where a chunk lies in two words, only the pieces can tell where the second begins.
        torn = np.unique(np.searchsorted(bounds, np.flatnonzero(first != last), "right") - 1).tolist()
        if not torn:
            return marked, bounds
        parts = np.split(marked, bounds[1:-1])
        for index, pieces in zip(torn, self.tokenizer.encode_batch([texts[i] for i in torn]), strict=True):
            parts[index] = mark(pieces.ids, self.marks(texts[index], pieces))
        return np.concatenate(parts), bounds


def letter_marks(text: str, pieces: Pieces) -> np.ndarray:
    """Returns `CAPITAL`, `LETTER` and `WORDLIKE` of the pieces of a text, int32 (N,), from its letters as they were written."""
    found, of_word = np.zeros(len(pieces.ids), np.int32), 0
    for index, ((begin, end), opens) in enumerate(zip(pieces.spans, pieces.word_start, strict=True)):
        if opens:
            first = text[begin : min(begin + 1, end)]
            of_word = CAPITAL * first.isupper() | LETTER * first.isalpha()
        found[index] = of_word | WORDLIKE * any(map(str.isalnum, text[begin:end]))
    return found


def _documents(documents: list[Document], marked: np.ndarray, bounds: list[int], statistics) -> Iterator[Tokens]:
    """Yields the tokens of each document, and counts of those that have any."""
    first = 0
    for document in documents:
        own = bounds[first : first + len(document.sentences) + 1]
        first += len(document.sentences)
        if len(set(own)) < len(own):
            own = sorted(set(own))  # a sentence without pieces leaves no trace
        if len(own) > 1:
            statistics["documents"] += document.ends
            statistics["sentences"] += len(own) - 1
            yield Tokens(marked[own[0] : own[-1]], [bound - own[0] for bound in own], document.ends)


def _texts(documents: list[Document], blank: str) -> Iterator[str]:
    """Yields the sentences of documents, with the blanks between them."""
    for document in documents:
        for number, sentence in enumerate(document.sentences):
            yield f"{blank}{sentence}" if number else sentence


@functools.lru_cache(2)
def _chunked(tokenizer: Tokenizer) -> ChunkedTokenizer:
    """Returns one for each tokenizer, so that the next shard finds what this one has learnt."""
    return ChunkedTokenizer(tokenizer, mark)


@functools.lru_cache(2)
def _cached(tokenizer: Tokenizer) -> WordCache:
    return WordCache(tokenizer, mark)
