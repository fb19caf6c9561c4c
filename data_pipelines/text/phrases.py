"""Words that occur together more often than by chance, joined into one (Mikolov et al., 2013b, section 4; word2phrase.c)."""

import collections
from collections.abc import Iterable, Iterator, Sequence

MARK = "_"  # between the words of a phrase
KEPT = 0.7  # the share of the entries that stays at most when the rarest are dropped


class PairCounts:
    """Counts words, and pairs of words that stand side by side in a sentence.

    Args:
        most: words and pairs that are kept; where there are more, the rarest are dropped until `KEPT` of them are left, so that
            counts of rare ones are then too low, as word2phrase.c's are.
    """

    def __init__(self, most: int):
        self.most, self.least = most, 1
        self.words: collections.Counter[str] = collections.Counter()
        self.pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        self.num_words = 0

    def add(self, words: Sequence[str]) -> None:
        """Counts a sentence."""
        self.words.update(words)
        self.pairs.update(zip(words, words[1:], strict=False))
        self.num_words += len(words)
        if len(self.words) + len(self.pairs) > self.most:
            self._drop()

    def _drop(self) -> None:
        while len(self.words) + len(self.pairs) > KEPT * self.most:
            for counts in (self.words, self.pairs):
                for entry in [entry for entry, count in counts.items() if count <= self.least]:
                    del counts[entry]
            self.least += 1

    def phrases(self, threshold: float, min_count: int) -> dict[tuple[str, str], float]:
        """Returns {pair: score} of the pairs whose score is above a threshold, the best first.

        score(a, b) = (count(a b) - min_count) / (count(a) count(b)) * number of words: equation 6 with `min_count` as its discount,
        times the number of words, as in word2phrase.c, so that a threshold suits a text of any length. Words that occur fewer than
        `min_count` times, and signs without a letter or digit, are in no phrase.
        """
        found = {}
        for (first, second), both in self.pairs.items():
            counts = self.words[first], self.words[second]
            if both > min_count and min(counts) >= min_count and _is_word(first) and _is_word(second):
                score = (both - min_count) / counts[0] / counts[1] * self.num_words
                if score > threshold:
                    found[first, second] = score
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _is_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def join_pairs(words: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the words with pairs joined by `MARK`, from left to right: a word is in one pair at most.

    Args:
        pairs: a set, or a dictionary by pairs.
    """
    joined: list[str] = []
    free = False  # whether the last word may begin a pair
    for word in words:
        if free and (joined[-1], word) in pairs:
            joined[-1] += MARK + word
            free = False
        else:
            joined.append(word)
            free = True
    return joined


def join_all(words: Sequence[str], passes: Sequence[Iterable[tuple[str, str]]]) -> list[str]:
    """Returns the words joined by the pairs of each pass, in their order; later ones join what earlier ones have joined."""
    joined = list(words)
    for pairs in passes:
        joined = join_pairs(joined, pairs)
    return joined


def find(
    sentences: Iterable[Iterator[Sequence[str]]], thresholds: Sequence[float], min_count: int, most: int
) -> list[dict[tuple[str, str], float]]:
    """Returns the phrases of each pass over a text.

    Args:
        sentences: for each pass, the sentences of the whole text as words.
        thresholds: of each pass.
        min_count, most: of `PairCounts`.
    """
    passes: list[dict[tuple[str, str], float]] = []
    for text, threshold in zip(sentences, thresholds, strict=False):
        counts = PairCounts(most)
        for words in text:
            counts.add(join_all(words, passes))
        passes.append(counts.phrases(threshold, min_count))
    return passes
