"""Tokenizes much text at once, and no word twice.

Where a tokenizer never looks across some characters (`Tokenizer.chunks`), the pieces of a text are those of its chunks. A
character that stands alone, such as a Chinese one, is looked up in an array, and any other chunk by its hash in a table,
for a whole batch of text in a few calls of numpy. New chunks go through the tokenizer.
"""

import dataclasses

import numpy as np

from data_pipelines.text.hashes import Hashes, Table, codes_of, ranges
from data_pipelines.text.tokenizer import Tokenizer

TABLE_BITS = 18  # 3 MB; half of the slots are used
CACHED_PIECES = 1 << 20  # a full cache is emptied
_UNSEEN, _BLANK, _RUN, _ALONE = -1, -2, -3, -4  # instead of a marked piece; the last two are looked up
_SIZE_BITS = 24  # a chunk is kept as the place of its pieces and, in the lower bits, their number


@dataclasses.dataclass
class Chunked:
    """The pieces of some texts.

    Attributes:
        marked: int32 (T,), side by side.
        bounds: where each text begins among them, and the end.
        begins, ends: of each chunk, in the texts joined by line breaks.
        sizes: how many pieces each chunk has.
    """

    marked: np.ndarray
    bounds: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    sizes: np.ndarray

    def origins(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns where the chunk of each piece begins and ends, int64 (T,) both."""
        return np.repeat(self.begins, self.sizes), np.repeat(self.ends, self.sizes)


class ChunkedTokenizer:
    """Turns texts into marked pieces.

    Args:
        tokenizer: one with `chunks`, a pattern that treats each character alike wherever it stands: as a chunk of its
            own, as a blank between chunks, or as a part of a run.
        mark: joins ids and word starts.
    """

    def __init__(self, tokenizer: Tokenizer, mark):
        self.tokenizer, self.mark = tokenizer, mark
        self.kinds = np.full(0x110000, _UNSEEN, np.int32)  # by character: its marked piece, or what kind it is
        self._forget()

    def _forget(self) -> None:
        self.table, self.num_chunks = Table(TABLE_BITS), 0
        self.pieces, self.num_pieces = np.empty(1 << 16, np.int32), 0

    def __call__(self, texts: list[str]) -> Chunked:
        text = "\n".join(texts)
        codes = codes_of(text)
        text_ends = np.cumsum([len(sentence) + 1 for sentence in texts])
        kinds = self._kinds(codes)
        kinds[text_ends[:-1] - 1] = _BLANK  # the line breaks that join the texts
        begins, ends = _runs(kinds)
        is_first = kinds >= 0  # of the pieces of a chunk
        is_first[begins] = True
        places = np.flatnonzero(is_first)
        first = kinds[places]
        is_run = first < 0
        found = self._look_up(text, codes[kinds <= _RUN], begins, ends)
        sizes, stops = np.ones(len(places), np.int64), places + 1
        sizes[is_run], stops[is_run] = found & (1 << _SIZE_BITS) - 1, ends
        starts = np.cumsum(sizes) - sizes
        marked = np.empty(int(sizes.sum()), np.int32)
        marked[starts[~is_run]] = first[~is_run]
        marked[ranges(starts[is_run], sizes[is_run])] = self.pieces[ranges(found >> _SIZE_BITS, sizes[is_run])]
        last = np.searchsorted(places, text_ends)
        bounds = np.concatenate([[0], np.append(starts, len(marked))[last]])
        return Chunked(marked, bounds, places, stops, sizes)

    def _kinds(self, codes: np.ndarray) -> np.ndarray:
        kinds = self.kinds.take(codes)
        unseen = kinds == _UNSEEN
        if unseen.any():
            self._learn_characters(np.unique(codes[unseen]))
            kinds = self.kinds.take(codes)
        return kinds

    def _learn_characters(self, codes: np.ndarray) -> None:
        """Finds out what kind of characters these are."""
        characters = [chr(code) for code in codes.tolist()]
        found = self.tokenizer.encode("\n".join(characters))  # the one numbered i stands at place 2 i
        pieces = self.mark(found.ids, found.word_start)
        owners = np.array([first for first, _ in found.spans], np.int64) // 2
        counts = np.bincount(owners, minlength=len(codes)).tolist()
        alone = dict(zip(owners.tolist(), pieces.tolist(), strict=True))
        for index, (code, character) in enumerate(zip(codes, characters, strict=True)):
            parts = len(self.tokenizer.chunks.findall(f"a{character}a"))
            if parts == 3:
                self.kinds[code] = alone[index] if counts[index] == 1 else _ALONE
            else:
                self.kinds[code] = _RUN if parts == 1 else _BLANK

    def _look_up(self, text: str, codes: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns where the pieces of each run stand in `self.pieces`, and how many they are.

        Args:
            codes: the characters of all runs, side by side.
            begins, ends: of the runs in `text`.
        """
        if self.tokenizer.do_lower_case:
            codes = codes + (codes - 65 < 26) * np.uint32(32)  # A to Z; the codes before them wrap to large ones
        hashes = Hashes(codes)
        stops = np.cumsum(ends - begins)
        starts = stops - (ends - begins)
        keys = hashes(starts, stops)
        found = self.table.find(keys)
        if len(missing := np.flatnonzero(found < 0)):
            fresh = missing[np.unique(keys[missing], return_index=True)[1]]
            if self.num_chunks + len(fresh) > 1 << (TABLE_BITS - 1) or self.num_pieces > CACHED_PIECES:
                self._forget()
                fresh = np.unique(keys, return_index=True)[1]
            runs = [text[begin:end] for begin, end in zip(begins[fresh].tolist(), ends[fresh].tolist(), strict=True)]
            self._learn(runs, keys[fresh], hashes, starts[fresh], stops[fresh])
            found = self.table.find(keys)
        return found

    def _learn(self, runs: list[str], keys: np.ndarray, hashes: Hashes, starts: np.ndarray, stops: np.ndarray) -> None:
        """Adds new runs to the table."""
        marked, sizes = [], np.zeros(len(runs), np.int64)
        match = self.tokenizer.longest_pieces
        plain = np.array([run.isascii() and run.isalnum() for run in runs]) & (match is not None)
        if plain.any():
            ids, sizes[plain] = match(hashes, starts[plain], stops[plain])
            opens = np.zeros(len(ids), np.int32)
            opens[np.cumsum(sizes[plain]) - sizes[plain]] = 1
            marked.append(self.mark(ids, opens))
        others = np.flatnonzero(~plain)
        for index, pieces in zip(others, self.tokenizer.encode_batch([runs[i] for i in others]), strict=True):
            sizes[index] = len(pieces.ids)
            marked.append(self.mark(pieces.ids, pieces.word_start))
        order = np.concatenate([np.flatnonzero(plain), others])
        stored = self._store(np.concatenate(marked))
        places = np.empty(len(runs), np.int64)
        places[order] = stored + np.cumsum(sizes[order]) - sizes[order]
        self.table.add(keys, places << _SIZE_BITS | sizes)
        self.num_chunks += len(runs)

    def _store(self, marked: np.ndarray) -> int:
        start = self.num_pieces
        self.num_pieces += len(marked)
        if self.num_pieces > len(self.pieces):
            self.pieces = np.resize(self.pieces, 2 * self.num_pieces)
        self.pieces[start : self.num_pieces] = marked
        return start


def _runs(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where runs, and characters that stand alone but have not one piece, begin and end."""
    edges = np.flatnonzero(np.diff(kinds == _RUN, prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    alone = np.flatnonzero(kinds == _ALONE)
    if len(alone):
        begins, ends = np.sort(np.concatenate([begins, alone])), np.sort(np.concatenate([ends, alone + 1]))
    return begins, ends
