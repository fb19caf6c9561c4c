"""Contiguous sentences with the characters of words, and beside them the same sentences backwards (ELMo)."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from data_pipelines.features import CHARACTERS, Feature
from data_pipelines.layout import STREAM, Layout
from data_pipelines.pretraining.stages.pipe import in_batches
from data_pipelines.pretraining.stages.tokenize import ids_of
from data_pipelines.text.open_words import OpenVocabulary
from data_pipelines.text.vocabulary import CLS, SEP

BLOCK_TOKENS = 1 << 20  # of sentences that are shuffled together
IDS = "token_ids", "labels", "reversed_labels"


@dataclasses.dataclass
class Rows:
    """Rows of two streams.

    Attributes:
        numbers: int32 (4, T): the tokens of the first stream, what follows each, and the same of the second; as they are numbered.
        bounds: where rows begin and end, int64 (N + 1,).
        vocabulary: knows the words of the numbers.
    """

    numbers: np.ndarray
    bounds: np.ndarray
    vocabulary: OpenVocabulary

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batches(self, size: int) -> Iterator["Rows"]:
        """Yields the same rows in batches of at most `size`."""
        for first in range(0, len(self), size):
            bounds = self.bounds[first : first + size + 1]
            yield Rows(self.numbers[:, bounds[0] : bounds[-1]], bounds - bounds[0], self.vocabulary)


def features(settings):
    return {
        **{name: Feature((None,)) for name in IDS},
        "character_ids": Feature((None, CHARACTERS)),
        "reversed_character_ids": Feature((None, CHARACTERS)),
    }


def both_ways(words: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Returns a sentence and what follows each of its tokens, and the same from its end: `<S> w1 w2` and `w1 w2 </S>`, and
    `</S> w2 w1` and `w2 w1 <S>`, int32 (4, W + 1)."""
    marked = np.concatenate([[begin], words, [end]]).astype(np.int32)
    turned = marked[::-1]
    return np.stack([marked[:-1], marked[1:], turned[:-1], turned[1:]])


def stage(settings, vocabulary, rng):
    length, begin, end = settings.max_seq_length, vocabulary[CLS], vocabulary[SEP]
    is_open = isinstance(vocabulary, OpenVocabulary)
    spelled = vocabulary if is_open else OpenVocabulary(vocabulary.tokens, vocabulary.source, (), True)

    def rows(documents) -> Iterator[Rows]:
        rest = np.zeros((4, 0), np.int32)
        for block in in_batches(documents, lambda document: len(document.marked), BLOCK_TOKENS):
            sentences = [words for each in block for words in np.split(ids_of(each.marked), each.bounds[1:-1])]
            rng.shuffle(sentences)
            made = np.concatenate([rest, *(both_ways(words, begin, end) for words in sentences)], axis=1)
            whole = made.shape[1] // length
            yield Rows(made[:, : whole * length], np.arange(whole + 1) * length, spelled)
            rest = made[:, whole * length :]
        if rest.shape[1]:
            yield Rows(rest, np.array([0, rest.shape[1]]), spelled)

    return rows


def columns(settings, rows: Rows, statistics):
    lengths = np.diff(rows.bounds)
    (ids, labels, _, reversed_labels), characters = zip(*map(rows.vocabulary.of_numbers, rows.numbers), strict=True)
    statistics["examples"] += len(rows)
    statistics["example_tokens"] += len(ids)
    return {
        "token_ids": (ids, lengths), "labels": (labels, lengths), "reversed_labels": (reversed_labels, lengths),
        "character_ids": (characters[0], lengths), "reversed_character_ids": (characters[2], lengths),
    }  # fmt: skip


def steps(parsed):
    """Returns the steps of each row, int64 (N,)."""
    return parsed["token_ids"].row_lengths()


LAYOUT = Layout(
    features=features, stage=stage, columns=columns, lengths=steps, measured=("token_ids",), order=STREAM, ids=IDS,
    keeps_words=True, scores_all=True, takes_all=True, report=lambda manifest: [],
)  # fmt: skip
