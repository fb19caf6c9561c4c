"""Stage: documents -> pairs of segments for next sentence prediction.

Restates `create_instances_from_document` of google-research/bert, draw by draw: given the same `random.Random` it
makes the same pairs (Devlin et al., 2018, appendix A.2). Works on any list of tokens: strings, ids or marked pieces.
"""

import dataclasses
import random
from collections.abc import Iterator

from data_pipelines.stages.pipe import Stage


@dataclasses.dataclass
class Pair:
    """Two segments; `is_random` says that the second does not follow the first."""

    first: list
    second: list
    is_random: bool


def segment_pairs(documents: list, index: int, max_sequence_length: int, short_rate: float, rng) -> Iterator[Pair]:
    """The pairs of one document, of at most `max_sequence_length` tokens with `[CLS]` and two `[SEP]`.

    Args:
        documents: the documents among which random second segments are drawn.
        index: which of them to cut into pairs.
        short_rate: how often a document is cut into shorter pairs (`short_seq_prob`); drawn once for the document.
        rng: a `random.Random`. Draw from it between two pairs, as Google's masking does, and the order stays theirs.
    """
    document = documents[index]
    max_tokens = max_sequence_length - 3
    target = rng.randint(2, max_tokens) if rng.random() < short_rate else max_tokens
    chunk, length, i = [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            first_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for sentence in chunk[:first_end] for token in sentence]
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                second = _random_segment(documents, index, target - len(first), rng)
                i -= len(chunk) - first_end  # the unused sentences are put back
            else:
                second = [token for sentence in chunk[first_end:] for token in sentence]
            _truncate(first, second, max_tokens, rng)
            if first and second:
                yield Pair(first, second, is_random)
            chunk, length = [], 0
        i += 1


def _random_segment(documents: list, index: int, target: int, rng) -> list:
    for _ in range(10):  # in a corpus of one document there is no other to be found
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    document = documents[other]
    segment: list = []
    for sentence in document[rng.randint(0, len(document) - 1) :]:
        segment += sentence
        if len(segment) >= target:
            break
    return segment


def _truncate(first: list, second: list, max_tokens: int, rng) -> None:
    """Drops tokens of the longer segment, from the front or the back with equal chance, until both fit."""
    while len(first) + len(second) > max_tokens:
        longer = first if len(first) > len(second) else second
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def pairs(max_sequence_length: int, short_rate: float, num_passes: int, rng: random.Random, block_tokens: int) -> Stage:
    """Cuts documents into pairs, `num_passes` times each.

    Random second segments come from the same block, about `block_tokens` tokens of neighbouring documents, so memory
    does not grow with the corpus.
    """

    def block_pairs(block):
        rng.shuffle(block)
        for _ in range(num_passes):
            for index in range(len(block)):
                yield from segment_pairs(block, index, max_sequence_length, short_rate, rng)

    def stage(documents):
        block, size = [], 0
        for document in documents:
            block.append(document)
            size += sum(map(len, document))
            if size >= block_tokens:
                yield from block_pairs(block)
                block, size = [], 0
        yield from block_pairs(block)

    return stage


def shuffle(buffer_size: int, rng: random.Random) -> Stage:
    """Mixes items within a window of `buffer_size`."""

    def stage(items):
        buffer: list = []
        for item in items:
            if len(buffer) < buffer_size:
                buffer.append(item)
                continue
            place = rng.randrange(buffer_size)
            buffer[place], item = item, buffer[place]
            yield item
        rng.shuffle(buffer)
        yield from buffer

    return stage
