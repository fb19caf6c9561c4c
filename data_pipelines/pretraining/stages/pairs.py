"""Stages: documents -> pairs of segments, for next sentence prediction or for the order of sentences.

Restate `create_instances_from_document` of google-research/bert and of google-research/albert: given the same draws they
make the same pairs (Devlin et al., 2018, appendix A.2; Lan et al., 2019, section 3.1). The originals cut one document
after the other; here all documents of a block are cut side by side, in each step one pair from each of them.

A segment is a run of pieces of one document, so no piece is touched here: a segment is the begin and the end of a run.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from data_pipelines.pretraining.stages.blocks import BLOCK_TOKENS, Block, blocks
from data_pipelines.pretraining.stages.draws import Draws
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.pipe import Stage


class Pairs(NamedTuple):
    """N pairs.

    Attributes:
        spans: int64 (N, 2, 2), the begin and the end of both segments.
        is_negative: bool (N,), whether the second does not follow the first.
    """

    spans: np.ndarray
    is_negative: np.ndarray


class Sentences(NamedTuple):
    """The sentences of several documents.

    Attributes:
        bounds: int64 (B,), of the sentences of one document after the other; they never fall.
        first, last: int64 (documents,), where in `bounds` each document begins and ends.
    """

    bounds: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, documents: list[list[int]]) -> "Sentences":
        """Returns the sentences, given their bounds in each document."""
        ends = np.cumsum([len(bounds) for bounds in documents])
        return cls(np.concatenate([np.asarray(d, np.int64) for d in documents]), np.append(0, ends[:-1]), ends - 1)

    def reach(self, start: np.ndarray, wanted: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Returns the ends of the runs of sentences that begin at `start` and hold `wanted` pieces, or less at `last`."""
        found = np.searchsorted(self.bounds, self.bounds[start] + np.maximum(wanted, 1))
        return np.minimum(found, last)

    def others(self, documents: np.ndarray, lanes: np.ndarray, draws: Draws) -> np.ndarray:
        """Returns random documents, other ones than `documents` where that is found in ten draws."""
        found, again = documents.copy(), np.arange(len(documents))
        for _ in range(10):  # in a corpus of one document there is no other to be found
            found[again] = draws.between(lanes[again], 0, len(self.first) - 1)
            again = again[found[again] == documents[again]]
        return found


class Chunks(NamedTuple):
    """Runs of sentences that become pairs: places in `Sentences.bounds`, and more, int64 or bool (N,) each.

    Attributes:
        lanes: who draws.
        documents: where they come from.
        targets: how many tokens the pair shall have.
        opened, split, stop: the first segment lies between the first two, the second between the last two.
        elsewhere: whether the second segment is taken from another document instead.
        is_negative: whether the second segment does not follow the first.
    """

    lanes: np.ndarray
    documents: np.ndarray
    targets: np.ndarray
    opened: np.ndarray
    split: np.ndarray
    stop: np.ndarray
    elsewhere: np.ndarray
    is_negative: np.ndarray


def chunks_of(
    sentences: Sentences, documents: np.ndarray, max_sequence_length: int, short_rate: float, draws: Draws,
    negatives: str = "random", lone_sentences: str = "random",
) -> Iterator[Chunks]:  # fmt: skip
    """Cuts documents side by side: each step gives one chunk of every document that is not at its end.

    Args:
        sentences: of all documents of the block.
        documents: which of them to cut; some may stand there more than once.
        short_rate: how often a document is cut into shorter pairs (`short_seq_prob`); drawn once for the document.
        draws: with one document its draws come in the order of the originals; make the pair of each chunk before the
            next one, and draw from the same source as Google's masking does, and the order stays theirs.
        negatives: what half of the pairs are: "random" takes the second segment from another document (BERT),
            "swapped" puts the second segment first (ALBERT).
        lone_sentences: what becomes of a chunk of one sentence, which has no second segment: "random" as above, in
            both originals; "skip" leaves it out.
    """
    capacity = max_sequence_length - 3
    lanes = np.arange(len(documents))
    targets = np.full(len(documents), capacity)
    short = np.flatnonzero(draws.chance(lanes, short_rate))
    targets[short] = draws.between(short, 2, capacity)
    opened, last = sentences.first[documents], sentences.last[documents]
    while len(lanes):
        stop = sentences.reach(opened, targets, last)
        size = stop - opened
        split, is_negative = opened + 1, size == 1
        many = np.flatnonzero(size > 1)
        split[many] += draws.between(lanes[many], 0, size[many] - 2)
        is_negative[many] = draws.chance(lanes[many], 0.5)
        elsewhere = is_negative if negatives == "random" else size == 1
        if lone_sentences == "skip":
            elsewhere = elsewhere & (size > 1)
        yield Chunks(lanes, documents, targets, opened, split, stop, elsewhere, is_negative)
        opened = np.where(elsewhere, split, stop)  # the unused sentences are put back
        going = np.flatnonzero(opened < last)
        lanes, documents, targets, opened, last = (x[going] for x in (lanes, documents, targets, opened, last))


def pairs_of(sentences: Sentences, chunks: Chunks, max_sequence_length: int, draws: Draws) -> Pairs:
    """Returns the pairs of chunks, of at most `max_sequence_length` tokens with `[CLS]` and two `[SEP]`."""
    ends = sentences.bounds[np.stack([chunks.opened, chunks.split, chunks.stop], axis=1)]
    spans = ends[:, [[0, 1], [1, 2]]]
    swapped = np.flatnonzero(chunks.is_negative & ~chunks.elsewhere)
    spans[swapped] = spans[swapped, ::-1]
    elsewhere = np.flatnonzero(chunks.elsewhere)
    wanted = chunks.targets[elsewhere] - (ends[elsewhere, 1] - ends[elsewhere, 0])
    documents, lanes = chunks.documents[elsewhere], chunks.lanes[elsewhere]
    spans[elsewhere, 1] = _random_segments(sentences, documents, wanted, lanes, draws)
    spans = _truncate(spans, max_sequence_length - 3, chunks.lanes, draws)
    whole = (spans[..., 0] < spans[..., 1]).all(axis=1)
    return Pairs(spans[whole], chunks.is_negative[whole])


def _random_segments(sentences: Sentences, documents, wanted, lanes, draws: Draws) -> np.ndarray:
    """Segments of about `wanted` pieces of other documents, (N, 2)."""
    others = sentences.others(documents, lanes, draws)
    first, last = sentences.first[others], sentences.last[others]
    start = first + draws.between(lanes, 0, last - first - 1)
    return sentences.bounds[np.stack([start, sentences.reach(start, wanted, last)], axis=1)]


def _truncate(spans: np.ndarray, capacity: int, lanes: np.ndarray, draws: Draws) -> np.ndarray:
    """Drops tokens of the longer segment, from the front or the back with equal chance, until both fit.

    A coin a token, as in the original: the longer segment's until both are equally long, then the second's and the
    first's in turn.
    """
    lengths = spans[..., 1] - spans[..., 0]
    excess = np.maximum(lengths.sum(axis=1) - capacity, 0)
    from_longer = np.minimum(excess, np.abs(lengths[:, 0] - lengths[:, 1]))
    drop, front = np.zeros_like(lengths), np.zeros_like(lengths)
    rows = np.flatnonzero(from_longer)
    longer = (lengths[rows, 0] <= lengths[rows, 1]).astype(np.int64)
    drop[rows, longer] = from_longer[rows]
    front[rows, longer] = draws.heads(lanes[rows], from_longer[rows])
    rest = excess - from_longer
    rows = np.flatnonzero(rest)
    of_second, of_first = draws.heads_in_turn(lanes[rows], rest[rows])
    drop[rows] += np.stack([rest[rows] // 2, (rest[rows] + 1) // 2], axis=1)
    front[rows] += np.stack([of_first, of_second], axis=1)
    return spans + np.stack([front, front - drop], axis=2)


def pairs(
    max_sequence_length: int, short_rate: float, num_passes: int, rng: random.Random, block_tokens: int = BLOCK_TOKENS,
    label: str = "next_sentence_labels", **choices,
) -> Stage:  # fmt: skip
    """Cuts documents into pairs, `num_passes` times each.

    Random second segments come from the same block, about `block_tokens` tokens of neighbouring documents, so memory
    does not grow with the corpus.

    Args:
        label: the feature that is 1 on negative pairs.
        choices: `negatives` and `lone_sentences` of `chunks_of`.
    """

    def block_pairs(sentences: Sentences, draws: Draws) -> Pairs:
        documents = np.tile(np.arange(len(sentences.first)), num_passes)
        steps = chunks_of(sentences, documents, max_sequence_length, short_rate, draws, **choices)
        chunks = Chunks(*map(np.concatenate, zip(*steps, strict=True)))
        return pairs_of(sentences, chunks, max_sequence_length, draws)

    return _by_blocks(block_pairs, rng, block_tokens, label)


def sentence_pairs(max_sequence_length: int, num_passes: int, rng: random.Random) -> Stage:
    """Pairs of two single sentences: neighbours, or, in half of the pairs, the second from another document.

    SENTENCE-PAIR+NSP of RoBERTa (Liu et al., 2019, section 4.2). Every sentence but the last of a document opens one.
    """

    def block_pairs(sentences: Sentences, draws: Draws) -> Pairs:
        first, last = sentences.first, sentences.last
        counts = np.tile(last - first - 1, num_passes)  # of pairs
        documents = np.repeat(np.tile(np.arange(len(first)), num_passes), counts)
        lanes = np.arange(len(documents))
        here = lanes + np.repeat(np.tile(first, num_passes) - (np.cumsum(counts) - counts), counts)
        is_random = draws.chance(lanes, 0.5)
        some = np.flatnonzero(is_random)
        place = here + 1
        others = sentences.others(documents[some], some, draws)
        place[some] = first[others] + draws.between(some, 0, (last - first)[others] - 1)
        spans = sentences.bounds[np.stack([here, here + 1, place, place + 1], axis=1)].reshape(-1, 2, 2)
        return Pairs(_truncate(spans, max_sequence_length - 3, lanes, draws), is_random)

    return _by_blocks(block_pairs, rng, BLOCK_TOKENS, "next_sentence_labels")


def _by_blocks(block_pairs, rng: random.Random, block_tokens: int, label: str) -> Stage:
    """Applies `block_pairs`, which draws from among many documents, to one block of the corpus after the other."""
    draws = Draws(rng.getrandbits(32))

    def examples(block: Block) -> Examples:
        spans, is_negative = block_pairs(Sentences.of(block.documents), draws)
        return Examples(block.marked, spans, {label: is_negative.astype(np.int64)})

    def stage(documents):
        return map(examples, blocks(documents, block_tokens))

    return stage
