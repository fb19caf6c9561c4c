"""Stage: documents of sentences -> documents of marked pieces."""

import collections
from collections.abc import Iterator

from data_pipelines.corpora.documents import Document
from data_pipelines.stages.pipe import Stage
from data_pipelines.text.vocabulary import UNKNOWN
from data_pipelines.text.wordpiece import WordPieceTokenizer
from data_pipelines.text.words import Segment, align

# A piece and its word start travel as one number, so that cutting and truncating treat both alike.
Marked = list[int]  # 2 * id + (1 where the piece opens a word)


def mark(ids: list[int], word_start: list[int]) -> Marked:
    """Joins ids and word starts."""
    return [2 * i + s for i, s in zip(ids, word_start, strict=True)]


def ids_of(marked: Marked) -> list[int]:
    return [m >> 1 for m in marked]


def word_starts_of(marked: Marked) -> list[int]:
    return [m & 1 for m in marked]


def tokenize(tokenizer: WordPieceTokenizer, segment: Segment | None, statistics: collections.Counter) -> Stage:
    """Turns every sentence into marked pieces; empty documents vanish.

    Args:
        segment: gives the words of a sentence; None where the pieces themselves tell (`##`). A sentence whose words
            and pieces disagree falls back to the pieces and is counted.
        statistics: counts documents, sentences, tokens, unknown_tokens and misaligned_sentences.
    """
    unknown = tokenizer.vocabulary[UNKNOWN]

    def sentence(text, pieces) -> Marked:
        starts = pieces.word_start
        if segment is not None:
            aligned = align(pieces, segment(text))
            if aligned is None:
                statistics["misaligned_sentences"] += 1
            else:
                starts = aligned
        statistics["sentences"] += 1
        statistics["tokens"] += len(pieces.ids)
        statistics["unknown_tokens"] += pieces.ids.count(unknown)
        return mark(pieces.ids, starts)

    def stage(documents: Iterator[Document]) -> Iterator[list[Marked]]:
        for document in documents:
            batch = tokenizer.encode_batch(document.sentences)
            marked = [sentence(text, p) for text, p in zip(document.sentences, batch, strict=True) if p.ids]
            if marked:
                statistics["documents"] += 1
                yield marked

    return stage
