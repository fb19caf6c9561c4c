"""Gathers documents into blocks of pieces: the working set of the layouts, so that memory does not grow."""

import dataclasses
import random
from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.stages.pipe import in_batches
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

    def another_document(self, index: int, rng: random.Random) -> list[int]:
        """Returns the bounds of a random document other than that of this index; there must be two."""
        other = rng.randrange(len(self.documents) - 1)
        return self.documents[other + (other >= index)]


def blocks(documents: Iterator[Tokens], block_tokens: int = BLOCK_TOKENS) -> Iterator[Block]:
    """Returns documents in blocks of at least `block_tokens` pieces, but for the last."""
    return map(_block, in_batches(documents, lambda document: len(document.marked), block_tokens))


def _block(gathered: list[Tokens]) -> Block:
    begin, documents = 0, []
    for document in gathered:
        documents.append([begin + bound for bound in document.bounds])
        begin += len(document.marked)
    return Block(np.concatenate([document.marked for document in gathered]), documents)
