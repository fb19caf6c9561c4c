"""Stages: documents -> examples of whole sentences, for objectives without next sentence prediction.

The inputs of RoBERTa (Liu et al., 2019, arXiv 1907.11692, section 4.2): FULL-SENTENCES and DOC-SENTENCES; and sentences one by one.
"""

from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.stages.blocks import blocks
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.tokenize import Tokens


def doc_sentences(max_sequence_length: int, num_passes: int = 1) -> Stage:
    """Gathers whole sentences of one document until the next would exceed the length, with `[CLS]` and `[SEP]`.

    The end of a document gives a shorter example. A sentence that is too long for any example is cut.
    """
    capacity = max_sequence_length - 2

    def stage(documents):
        for block in blocks(documents):
            runs = [run for bounds in block.documents for run in num_passes * list(gather(bounds, capacity))]
            yield Examples.of(block.marked, runs, {}, 1)

    return stage


def full_sentences(max_sequence_length: int, separator: np.ndarray, num_passes: int = 1) -> Stage:
    """Works as `doc_sentences`, but goes on across the ends of documents, where `separator` stands as one more token.

    A pass is one over all documents of a block, so that no example holds a document twice, which would tell what is hidden.

    Args:
        separator: the marked piece `[SEP]`. It is neither hidden nor drawn, and no example begins or ends with it.
    """
    capacity = max_sequence_length - 2

    def parted(documents: Iterator[Tokens]) -> Iterator[Tokens]:
        for document in documents:
            yield Tokens(np.concatenate([document.marked, separator]), document.bounds)

    def stage(documents):
        for block in blocks(parted(documents)):
            runs: list[tuple[int, int]] = []
            for bounds in block.documents:
                for begin, end in gather(bounds, capacity, runs.pop() if runs else None):
                    runs.append((begin, end))
            yield Examples.of(block.marked, num_passes * runs, {}, 1)

    return stage


def single_sentences(max_sequence_length: int) -> Stage:
    """Gives each sentence a row of its own, with `[CLS]` and `[SEP]`; one that is too long is cut into several. A row of one piece,
    which stands in no context, is left out."""
    capacity = max_sequence_length - 2

    def stage(documents):
        for block in blocks(documents):
            edges = (pair for bounds in block.documents for pair in zip(bounds, bounds[1:], strict=False))
            runs = [(i, min(i + capacity, stop)) for start, stop in edges for i in range(start, stop, capacity)]
            yield Examples.of(block.marked, [(begin, end) for begin, end in runs if end - begin > 1], {}, 1)

    return stage


def gather(bounds: list[int], capacity: int, open_run: tuple[int, int] | None = None) -> Iterator[tuple[int, int]]:
    """Runs of whole sentences of at most `capacity` pieces; the first goes on with `open_run`, if they fit together."""
    begin, end = open_run or (bounds[0], bounds[0])
    for start, stop in zip(bounds, bounds[1:], strict=False):
        if stop - begin <= capacity:
            end = stop
            continue
        if begin < end:
            yield begin, end
        while stop - start > capacity:  # too long for any example
            yield start, start + capacity
            start += capacity
        begin, end = start, stop
    if begin < end:
        yield begin, end
