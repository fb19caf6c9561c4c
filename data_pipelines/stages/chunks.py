"""Tokenizes much text at once, and no word twice.

Where a tokenizer never looks across some characters (`Tokenizer.chunks`), the pieces of a text are those of its chunks. A
character that stands alone, such as a Chinese one, is looked up in an array, for a whole batch of text in one step; other
chunks are looked up in a cache, which the tokenizer fills.
"""

import itertools
from typing import NamedTuple

import numpy as np

from data_pipelines.stages.example import ranges
from data_pipelines.text.tokenizer import Tokenizer

CACHE_ENTRIES = 1 << 17  # about 25 MB; a full cache is emptied
_UNSEEN, _BLANK, _RUN, _ALONE = -1, -2, -3, -4  # what is not the marked piece of a character


class Origins(NamedTuple):
    """Where the chunk of each piece begins and ends, int64 (T,) both."""

    begins: np.ndarray
    ends: np.ndarray


class ChunkedTokenizer:
    """Turns texts into marked pieces.

    Args:
        tokenizer: one with `chunks`, a pattern that treats each character alike wherever it stands: as a chunk of its
            own, as a blank between chunks, or as a part of a run.
        mark: joins ids and word starts.
    """

    def __init__(self, tokenizer: Tokenizer, mark):
        self.tokenizer, self.mark = tokenizer, mark
        self.table = np.full(0x110000, _UNSEEN, np.int32)  # by character: its marked piece, or what kind it is
        self.cache: dict[str, bytes] = {}

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray, Origins]:
        """The pieces of all texts side by side, int32 (T,); where each text begins among them, with the end; and the
        chunk that each piece comes from, in the texts joined by line breaks."""
        joined = "\n".join(texts)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        values = self.table[codes]
        if (values == _UNSEEN).any():
            self._learn(np.unique(codes[values == _UNSEEN]))
            values = self.table[codes]
        ends = np.cumsum([len(text) + 1 for text in texts])
        values[ends[:-1] - 1] = _BLANK  # the line breaks that join the texts
        is_run = values == _RUN
        starts = np.flatnonzero(is_run & ~np.concatenate([[False], is_run[:-1]]))
        found = self._chunks(_runs(joined, is_run, starts))
        alone = np.flatnonzero(values == _ALONE)
        if len(alone):
            starts = np.concatenate([starts, alone])
            found += self._chunks([joined[place] for place in alone.tolist()])
        sizes = np.fromiter(map(len, found), np.int64, len(found)) // 4
        single = values >= 0
        counts = single.astype(np.int64)
        counts[starts] = sizes
        places = np.cumsum(counts) - counts
        marked = np.empty(int(counts.sum()), np.int32)
        marked[places[single]] = values[single]
        marked[ranges(places[starts], sizes)] = np.frombuffer(b"".join(found), np.int32)
        bounds = np.concatenate([[0], np.append(places, len(marked))[np.minimum(ends, len(places))]])
        places_of = np.repeat(np.arange(len(counts)), counts)
        ends_of = np.arange(1, len(codes) + 1)
        stops = np.flatnonzero(is_run & ~np.concatenate([is_run[1:], [False]])) + 1
        ends_of[starts[: len(stops)]] = stops
        return marked, bounds, Origins(places_of, ends_of[places_of])

    def _learn(self, codes: np.ndarray) -> None:
        """Finds out what kind of characters these are."""
        characters = [chr(code) for code in codes.tolist()]
        for code, character, pieces in zip(codes, characters, self.tokenizer.encode_batch(characters), strict=True):
            parts = self.tokenizer.chunks.findall(f"a{character}a")
            if len(parts) == 1:
                self.table[code] = _RUN
            elif len(parts) == 2:
                self.table[code] = _BLANK
            elif len(pieces.ids) == 1:
                self.table[code] = self.mark(pieces.ids, pieces.word_start)[0]
            else:
                self.table[code] = _ALONE

    def _chunks(self, chunks: list[str]) -> list[bytes]:
        cache = self.cache
        try:
            return list(map(cache.__getitem__, chunks))
        except KeyError:
            pass
        missing = sorted(set(chunks).difference(cache))
        if len(cache) + len(missing) > CACHE_ENTRIES:
            cache.clear()
            missing = sorted(set(chunks))
        pieces = self.tokenizer.encode_batch(missing)
        lengths = [len(p.ids) for p in pieces]
        together = [
            list(itertools.chain.from_iterable(getattr(p, name) for p in pieces)) for name in ("ids", "word_start")
        ]
        data = self.mark(*together).tobytes()
        bounds = itertools.accumulate(lengths, initial=0)
        cache.update(zip(missing, (data[4 * a : 4 * b] for a, b in itertools.pairwise(bounds)), strict=True))
        return list(map(cache.__getitem__, chunks))


def _runs(text: str, is_run: np.ndarray, starts: np.ndarray) -> list[str]:
    """The runs of a text, which begin at `starts`."""
    # All else becomes a blank, so that `split` finds them: that is faster than a slice for each.
    codes = np.where(is_run, np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), 32)
    runs = codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass").split(" ")
    return [run for run in runs if run]
