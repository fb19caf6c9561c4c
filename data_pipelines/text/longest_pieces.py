"""WordPiece for many words at once: the longest piece first, from left to right (Wu et al., 2016)."""

import numpy as np

from data_pipelines.text.hashes import Hashes, Table, codes_of, ranges
from data_pipelines.text.vocabulary import CONTINUATION, UNKNOWN, Vocabulary


class LongestPieces:
    """Finds the pieces of words that need no cleaning.

    All beginnings of all words are looked up at once; then those of what is left of them, until nothing is.
    """

    def __init__(self, vocabulary: Vocabulary, max_word_characters: int):
        self.unknown, self.max_word_characters = vocabulary[UNKNOWN], max_word_characters
        opening, continuing = {}, {}
        for index, token in enumerate(vocabulary.tokens):
            if token.startswith(CONTINUATION):
                continuing[token[len(CONTINUATION) :]] = index
            else:
                opening[token] = index
        self.tables = [_table(opening), _table(continuing)]
        self.longest = max(map(len, [*opening, *continuing]))

    def __call__(self, hashes: Hashes, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of the pieces of all words side by side, and how many each word has.

        A word that is too long, or has a part that the vocabulary lacks, is unknown as a whole.
        """
        unknown = ends - starts > self.max_word_characters
        places, left = starts.copy(), np.flatnonzero(~unknown)
        words, ids = [], []
        table = self.tables[0]
        while len(left):
            lengths = np.minimum(ends[left] - places[left], self.longest)
            stops = ranges(places[left] + 1, lengths)
            found = table.find(hashes(np.repeat(places[left], lengths), stops))
            known = np.where(found >= 0, np.arange(len(found)), -1)
            best = np.maximum.reduceat(known, np.cumsum(lengths) - lengths)
            unknown[left[best < 0]] = True
            left, best = left[best >= 0], best[best >= 0]
            words.append(left)
            ids.append(found[best])
            places[left] = stops[best]
            left = left[places[left] < ends[left]]
            table = self.tables[1]
        lost = np.flatnonzero(unknown)
        word, piece = np.concatenate([left, *words]), np.concatenate([left, *ids])
        whole = ~unknown[word]
        word = np.concatenate([word[whole], lost])
        piece = np.concatenate([piece[whole], np.full(len(lost), self.unknown)])
        order = np.argsort(word, kind="stable")
        return piece[order], np.bincount(word, minlength=len(starts))


def _table(tokens: dict[str, int]) -> Table:
    tokens = {token: index for token, index in tokens.items() if token}
    ends = np.cumsum([len(token) for token in tokens], dtype=np.int64)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
    table = Table((4 * len(tokens) + 1).bit_length())
    table.add(Hashes(codes_of("".join(tokens)))(starts, ends), np.array(list(tokens.values()), np.int64))
    return table
