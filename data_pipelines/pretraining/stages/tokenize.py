"""Stage: documents of sentences -> documents of marked pieces.

Tokenizing is the dearest step (measured in `benchmarks/data.py`); `stages.chunks` does it where the tokenizer allows.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping

import numpy as np

from data_pipelines.corpora.documents import Document
from data_pipelines.pretraining.stages.chunks import ChunkedTokenizer
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.word_cache import WordCache
from data_pipelines.text.lexicon import Lexicon
from data_pipelines.text.tokenizer import Pieces, Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN
from data_pipelines.text.words import Segment, align, mark_units

# A piece and its marks travel as one number, so that cutting and truncating treat both alike.
MARK_BITS = 3  # room for marks; bit 0 is 1 where the piece opens a word
MARKS = {"word_start": 1, "phrase_start": 2, "entity_start": 4}  # 1 where a piece opens such a unit
WORD_START = MARKS["word_start"]
TOGETHER = 1 << 18  # characters that are tokenized at once


@dataclasses.dataclass
class Tokens:
    """A tokenized document, or several.

    Attributes:
        marked: int32 (N,), see `mark`.
        bounds: where sentences begin and end: sentence i is marked[bounds[i]:bounds[i + 1]]. None is empty.
    """

    marked: np.ndarray
    bounds: list[int]


def mark(ids, word_start) -> np.ndarray:
    """Joins ids and marks; `word_start` may hold the bits of other units as well."""
    return np.asarray(ids, np.int32) << MARK_BITS | np.asarray(word_start, np.int32)


def ids_of(marked: np.ndarray) -> np.ndarray:
    return marked >> MARK_BITS


def word_starts_of(marked: np.ndarray) -> np.ndarray:
    return marked & WORD_START


def starts_of(marked: np.ndarray, name: str) -> np.ndarray:
    """Whether a piece opens a unit of `MARKS`."""
    return marked & MARKS[name] > 0


def tokenize(
    tokenizer: Tokenizer, segment: Segment | None, statistics: collections.Counter, lexicons: Mapping[str, Lexicon] = {},
    spaced: bool = False,
) -> Stage:  # fmt: skip
    """Turns documents into `Tokens`; empty ones vanish.

    Args:
        segment: gives the words of a sentence; None where the pieces themselves tell (`##`). A sentence whose words
            and pieces disagree falls back to the pieces and is counted.
        statistics: counts documents, sentences, tokens, unknown_tokens and misaligned_sentences; of each lexicon
            phrase_matches and misaligned_phrase_matches (entity_matches, ...).
        lexicons: by mark. Outside of its matches, phrase_start opens at words, and entity_start where the pieces tell (in
            Chinese at each character), as in the stages of ERNIE 1.0 (Sun et al., 2019, section 3.2).
        spaced: put a blank before each sentence but the first of a document, as it stands in running text.
    """
    unknown = tokenizer.vocabulary.roles.get(UNKNOWN, -1)
    chunked = _chunked(tokenizer) if tokenizer.chunks else None

    def one_by_one(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encodings = tokenizer.encode_batch(texts)
        found = [mark(p.ids, marks_of(text, p)) for text, p in zip(texts, encodings, strict=True)]
        return np.concatenate(found), np.cumsum([0, *map(len, found)])

    def marks_of(text: str, pieces: Pieces) -> np.ndarray:
        starts = align(pieces, segment(text)) if segment is not None else pieces.word_start
        if starts is None:
            statistics["misaligned_sentences"] += 1
            starts = pieces.word_start
        marks = np.asarray(starts, np.int32)
        for name, lexicon in lexicons.items():
            matches = lexicon.matches(text)
            units, left_out = mark_units(pieces, pieces.word_start if name == "entity_start" else starts, matches)
            marks = marks | MARKS[name] * np.asarray(units, np.int32)
            statistics[f"{name.removesuffix('_start')}_matches"] += len(matches)
            statistics[f"misaligned_{name.removesuffix('_start')}_matches"] += left_out
        return marks

    def segmented(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        found = chunked(texts)
        marked, bounds, (begins, ends) = found.marked, found.bounds, found.origins()
        numbers = [number for text in texts for number in [*segment(text), -1]]  # -1 at the line break between two
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
        for index, pieces in zip(torn, tokenizer.encode_batch([texts[i] for i in torn]), strict=True):
            parts[index] = mark(pieces.ids, marks_of(texts[index], pieces))
        return np.concatenate(parts), bounds

    def plain(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        found = chunked(texts)
        return found.marked, found.bounds

    if lexicons or (segment is not None and chunked is None):
        encode = one_by_one
    elif chunked is None:
        encode = _cached(tokenizer) if tokenizer.parts_at_blanks else one_by_one
    else:
        encode = segmented if segment is not None else plain

    def stage(documents: Iterator[Document]) -> Iterator[Tokens]:
        for batch in _batches(documents):
            marked, bounds = encode(list(_texts(batch, spaced)))
            statistics["tokens"] += len(marked)
            statistics["unknown_tokens"] += int(np.count_nonzero(ids_of(marked) == unknown))
            bounds, first = bounds.tolist(), 0
            for document in batch:
                held = bounds[first : first + len(document.sentences) + 1]
                first += len(document.sentences)
                if len(set(held)) < len(held):
                    held = sorted(set(held))  # a sentence without pieces leaves no trace
                if len(held) > 1:
                    statistics["documents"] += 1
                    statistics["sentences"] += len(held) - 1
                    yield Tokens(marked[held[0] : held[-1]], [bound - held[0] for bound in held])

    return stage


def _texts(documents: list[Document], spaced: bool) -> Iterator[str]:
    """The sentences of documents; with `spaced`, with the blanks between them."""
    for document in documents:
        for number, sentence in enumerate(document.sentences):
            yield f" {sentence}" if spaced and number else sentence


@functools.lru_cache(2)
def _chunked(tokenizer: Tokenizer) -> ChunkedTokenizer:
    """One for each tokenizer, so that the next shard finds what this one has learnt."""
    return ChunkedTokenizer(tokenizer, mark)


@functools.lru_cache(2)
def _cached(tokenizer: Tokenizer) -> WordCache:
    return WordCache(tokenizer, mark)


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document.sentences))
        if size >= TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
