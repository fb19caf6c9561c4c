"""Gathers documents into blocks of pieces: the working set of the layouts, so that memory does not grow."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.stages.tokenize import Tokens

BLOCK_TOKENS = 1_000_000


@dataclasses.dataclass
class Block:
    """Neighbouring documents.

    Attributes:
        marked: int32 (T,), all their pieces.
        documents: for each the bounds of its sentences in `marked`.
    """

    marked: np.ndarray
    documents: list[list[int]]


def blocks(documents: Iterator[Tokens], block_tokens: int = BLOCK_TOKENS) -> Iterator[Block]:
    """Documents in blocks of at least `block_tokens` pieces, but for the last."""
    gathered: list[Tokens] = []
    size = 0
    for document in documents:
        gathered.append(document)
        size += len(document.marked)
        if size >= block_tokens:
            yield _block(gathered)
            gathered, size = [], 0
    if gathered:
        yield _block(gathered)


def _block(gathered: list[Tokens]) -> Block:
    begin, documents = 0, []
    for document in gathered:
        documents.append([begin + bound for bound in document.bounds])
        begin += len(document.marked)
    return Block(np.concatenate([document.marked for document in gathered]), documents)
