"""Stages: documents -> contiguous runs of one long stream of text, for models that carry a memory from run to run.

The records of a stream stand in its order: `Batches` reads them so that each row of a batch goes on where the same row of
the batch before has ended (Dai et al., 2019, arXiv 1901.02860, section 3.2).
"""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.stages.blocks import BLOCK_TOKENS, blocks
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.tokenize import Tokens, mark
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary


def stream(max_sequence_length: int, end: np.ndarray, block_tokens: int = BLOCK_TOKENS) -> Stage:
    """Runs of `max_sequence_length` + 1 pieces; the last piece of one is the first of the next.

    So every piece but the very first is predicted once, from inputs of `max_sequence_length` pieces. Only the last run
    may be shorter.

    Args:
        end: the marked piece that follows every document.
    """
    step = max_sequence_length

    def stage(documents):
        rest = np.zeros(0, np.int32)
        for block in blocks(_closed(documents, end), block_tokens):
            marked = np.concatenate([rest, block.marked])
            whole = max(0, len(marked) - 1) // step
            starts = np.arange(whole) * step
            yield Examples.of(marked, np.stack([starts, starts + step + 1], axis=1), {}, 1)
            rest = marked[whole * step :]
        if len(rest) > 1:
            yield Examples.of(rest, [(0, len(rest))], {}, 1)

    return stage


HALVED, SHORTEST = 0.05, 5


def stream_varied(
    max_sequence_length: int, passes: int, end: np.ndarray, rng: random.Random, block_tokens: int = BLOCK_TOKENS
) -> Stage:
    """Runs of different lengths, of which each goes on where the one before has ended (Merity et al., 2017, section 4.1).

    A length is normal around the mean m with a standard deviation of m / 14, or around m / 2 with probability 0.05; m lies three
    deviations below `max_sequence_length`: 70 of 85 tokens, as in the paper. It is at least 5. Each block of the text is cut `passes`
    times, differently, and then comes as often, so that gradients end at other places.

    Args:
        max_sequence_length: the most inputs of a run, which holds a piece more.
        passes: over each block.
        end: the marked piece that follows every document.
    """

    def stage(documents):
        for block in blocks(_closed(documents, end), block_tokens):
            for _ in range(passes):
                bounds = np.minimum(_varied_bounds(len(block.marked), max_sequence_length, rng), len(block.marked) - 1)
                spans = np.stack([bounds[:-1], bounds[1:] + 1], axis=1)
                yield Examples.of(block.marked, spans[bounds[:-1] < bounds[1:]], {}, 1)

    return stage


def _varied_bounds(length: int, longest: int, rng: random.Random) -> np.ndarray:
    """Returns where runs begin, in a text of some length, and where the last of them ends, or later."""
    mean, draw = longest * 14 / 17, np.random.default_rng(rng.getrandbits(64))
    count = 2 * length // max(1, min(SHORTEST, longest)) + 1  # enough, however short they are
    means = np.where(draw.random(count) < HALVED, mean / 2, mean)
    lengths = np.clip(np.rint(draw.normal(means, mean / 14)), min(SHORTEST, longest), longest)
    bounds = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    return bounds[: np.searchsorted(bounds, length) + 1]


def stream_bidirectional(max_sequence_length: int, reuse_length: int, end: np.ndarray, rng: random.Random) -> Stage:
    """XLNet's examples: a run of the stream, then two segments A and B that go on, or of which B comes from elsewhere.

    Each block is read forwards, and then backwards, piece by piece from its end (`is_reversed`).

    The next example begins `reuse_length` pieces later, so that the states of the first run are its memory. Framed as
    `run A [SEP] B [SEP] [CLS]`. A ends with a sentence that is drawn; with
    probability 0.5 B goes on behind it (label 1), otherwise it begins with any sentence of the block (label 0); then the
    longer side is shortened from its end, as in the code of the authors (Yang et al., 2019, arXiv 1906.08237, section 2.5).

    Args:
        reuse_length: pieces of the run, half of the length in the paper.
        end: the marked piece that follows every document.
    """
    capacity = max_sequence_length - reuse_length - 3

    def stage(documents):
        for block in blocks(_closed(documents, end)):
            sentences = np.unique(list(itertools.chain.from_iterable(block.documents)))
            yield read(block.marked, sentences, 0)
            yield read(block.marked[::-1], len(block.marked) - sentences[::-1], 1)

    def read(marked: np.ndarray, sentences: np.ndarray, is_reversed: int) -> Examples:
        found, labels = [], []
        for start in range(0, len(marked) - reuse_length, reuse_length):
            pair = _two_segments(start + reuse_length, sentences, capacity, rng)
            if pair is None:
                break  # too little is left of the block
            first, second, follows = pair
            found.append([(start, start + reuse_length), first, second])
            labels.append(int(follows))
        directions = [is_reversed] * len(labels)
        return Examples.of(marked, found, {"follows_labels": labels, "is_reversed": directions}, 3)

    return stage


def _two_segments(begin: int, sentences: np.ndarray, capacity: int, rng: random.Random):
    """Runs A and B of together exactly `capacity` pieces, and whether B follows A; None where the text ends before."""
    last = int(sentences[-1])
    if begin + capacity >= last:
        return None
    until = int(sentences[np.searchsorted(sentences, begin + capacity)])  # the end of the sentence that fills the room
    cuts = sentences[(sentences > begin) & (sentences < begin + capacity)].tolist()
    follows = bool(cuts) and rng.random() >= 0.5
    cut = rng.choice(cuts) if cuts else until
    if follows:
        start, end = cut, until
    else:
        size = max(1, capacity - (cut - begin))
        drawn = rng.randint(0, last - 1 - size)
        start = int(sentences[np.searchsorted(sentences, drawn, "right") - 1])  # back to the start of a sentence,
        end = int(sentences[np.searchsorted(sentences, drawn + size)])  # and on to the end of one
    excess = (cut - begin) + (end - start) - capacity
    first, second = cut - begin, end - start
    while excess > 0:  # the longer side loses its last piece
        if first > second:
            first -= 1
        else:
            second -= 1
        excess -= 1
    return (begin, begin + first), (start, start + second), follows


def end_of(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the marked piece that ends a document; BERT's vocabularies have nothing but `[SEP]` for it."""
    return mark([vocabulary[EOS if EOS in vocabulary else SEP]], [1])


def _closed(documents: Iterator[Tokens], end: np.ndarray) -> Iterator[Tokens]:
    """Yields the documents with `end` in their last sentence, where their text ends."""
    for document in documents:
        if not document.ends:
            yield document
            continue
        yield Tokens(np.concatenate([document.marked, end]), [*document.bounds[:-1], document.bounds[-1] + len(end)])
