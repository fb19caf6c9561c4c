"""Stages: documents -> pairs of segments, for next sentence prediction or for the order of sentences.

Restate `create_instances_from_document` of google-research/bert and of google-research/albert, draw by draw: given the
same `random.Random` they make the same pairs (Devlin et al., 2018, appendix A.2; Lan et al., 2019, section 3.1).

A segment is a run of pieces of one document, so no piece is touched here: a segment is the begin and the end of a run.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from data_pipelines.stages.blocks import BLOCK_TOKENS, blocks
from data_pipelines.stages.example import Examples
from data_pipelines.stages.pipe import Stage

Bounds = list[int]  # of the sentences of a document: sentence i is the run from bounds[i] to bounds[i + 1]
Run = tuple[int, int]


class Pair(NamedTuple):
    """Two segments; `is_negative` says that the second does not follow the first."""

    first: Run
    second: Run
    is_negative: bool


def segment_pairs(
    documents: list[Bounds], index: int, max_sequence_length: int, short_rate: float, rng, negatives: str = "random",
    lone_sentences: str = "random",
) -> Iterator[Pair]:  # fmt: skip
    """The pairs of one document, of at most `max_sequence_length` tokens with `[CLS]` and two `[SEP]`.

    Args:
        documents: the documents among which random second segments are drawn.
        index: which of them to cut into pairs.
        short_rate: how often a document is cut into shorter pairs (`short_seq_prob`); drawn once for the document.
        rng: a `random.Random`. Draw from it between two pairs, as Google's masking does, and the order stays theirs.
        negatives: what half of the pairs are: "random" takes the second segment from another document (BERT),
            "swapped" puts the second segment first (ALBERT).
        lone_sentences: what becomes of a chunk of one sentence, which has no second segment: "random" as above, in
            both originals; "skip" leaves it out.
    """
    bounds = documents[index]
    num_sentences = len(bounds) - 1
    max_tokens = max_sequence_length - 3
    target = rng.randint(2, max_tokens) if rng.random() < short_rate else max_tokens
    opened = i = 0
    while i < num_sentences:
        if i == num_sentences - 1 or bounds[i + 1] - bounds[opened] >= target:
            size = i + 1 - opened  # sentences of the chunk
            split = opened + (rng.randint(1, size - 1) if size >= 2 else 1)
            first, second = (bounds[opened], bounds[split]), (bounds[split], bounds[i + 1])
            is_random = size == 1 or (negatives == "random" and rng.random() < 0.5)
            is_swapped = not is_random and negatives == "swapped" and rng.random() < 0.5
            if is_swapped:
                first, second = second, first
            elif is_random and (size > 1 or lone_sentences == "random"):
                second = _random_segment(documents, index, target - (first[1] - first[0]), rng)
                i = split - 1  # the unused sentences are put back
            first, second = _truncate(first, second, max_tokens, rng)
            if first[0] < first[1] and second[0] < second[1]:
                yield Pair(first, second, is_random or is_swapped)
            opened = i + 1
        i += 1


def _random_segment(documents: list[Bounds], index: int, target: int, rng) -> Run:
    bounds = other_document(documents, index, rng)
    start = end = rng.randint(0, len(bounds) - 2)
    while end < len(bounds) - 1:
        end += 1
        if bounds[end] - bounds[start] >= target:
            break
    return bounds[start], bounds[end]


def other_document(documents: list[Bounds], index: int, rng) -> Bounds:
    """A random document, another one where that is found in ten draws."""
    for _ in range(10):  # in a corpus of one document there is no other to be found
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    return documents[other]


def _truncate(first: Run, second: Run, max_tokens: int, rng) -> tuple[Run, Run]:
    """Drops tokens of the longer segment, from the front or the back with equal chance, until both fit.

    One draw a token, as in the original: first until both are equally long, then from the second and the first in turn.
    """
    (a, b), (c, d) = first, second
    excess = (b - a) + (d - c) - max_tokens
    if excess <= 0:
        return first, second
    draw = rng.random
    difference = abs((b - a) - (d - c))
    from_longer = min(excess, difference)
    from_front = sum([draw() < 0.5 for _ in range(from_longer)])
    if b - a > d - c:
        a, b = a + from_front, b - (from_longer - from_front)
    else:
        c, d = c + from_front, d - (from_longer - from_front)
    if excess > from_longer:
        fronts = [draw() < 0.5 for _ in range(excess - from_longer)]
        of_second, of_first = fronts[::2], fronts[1::2]
        c, d = c + sum(of_second), d - (len(of_second) - sum(of_second))
        a, b = a + sum(of_first), b - (len(of_first) - sum(of_first))
    return (a, b), (c, d)


def pairs(
    max_sequence_length: int, short_rate: float, num_passes: int, rng: random.Random, block_tokens: int = BLOCK_TOKENS,
    label: str = "next_sentence_labels", **choices,
) -> Stage:  # fmt: skip
    """Cuts documents into pairs, `num_passes` times each.

    Random second segments come from the same block, about `block_tokens` tokens of neighbouring documents, so memory
    does not grow with the corpus.

    Args:
        label: the feature that is 1 on negative pairs.
        choices: `negatives` and `lone_sentences` of `segment_pairs`.
    """

    def block_pairs(documents):
        for index in range(len(documents)):
            yield from segment_pairs(documents, index, max_sequence_length, short_rate, rng, **choices)

    return _by_blocks(block_pairs, num_passes, rng, block_tokens, label)


def sentence_pairs(
    max_sequence_length: int, num_passes: int, rng: random.Random, block_tokens: int = BLOCK_TOKENS
) -> Stage:
    """Pairs of two single sentences: neighbours, or, in half of the pairs, the second from another document.

    SENTENCE-PAIR+NSP of RoBERTa (Liu et al., 2019, section 4.2). Every sentence but the last of a document opens one.
    """
    room = max_sequence_length - 3

    def block_pairs(documents):
        for index, bounds in enumerate(documents):
            for here in range(len(bounds) - 2):
                is_random = rng.random() < 0.5
                source, place = bounds, here + 1
                if is_random:
                    source = other_document(documents, index, rng)
                    place = rng.randrange(len(source) - 1)
                first, second = (bounds[here], bounds[here + 1]), (source[place], source[place + 1])
                yield Pair(*_truncate(first, second, room, rng), is_random)

    return _by_blocks(block_pairs, num_passes, rng, block_tokens, "next_sentence_labels")


def _by_blocks(block_pairs, num_passes: int, rng: random.Random, block_tokens: int, label: str) -> Stage:
    """Applies `block_pairs`, which draws from among many documents, to one block of the corpus after the other."""

    def stage(documents):
        for block in blocks(documents, block_tokens):
            rng.shuffle(block.documents)
            made = [pair for _ in range(num_passes) for pair in block_pairs(block.documents)]
            labels = {label: [pair.is_negative for pair in made]}
            yield Examples.of(block.marked, [(pair.first, pair.second) for pair in made], labels, 2)

    return stage
