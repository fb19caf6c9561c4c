"""Texts as words with tags: arrays for a network, and the entities that tags name."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.finetuning.tasks.tag import align
from data_pipelines.pretraining.stages.windows import most_context, windows
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.joining import join_words
from data_pipelines.text.tokenizer import Pieces, Tokenizer
from xmodels.tasks.tag.settings import OUTSIDE

# Of a text or a window: ids, the word of each token, and 1 where a token is the first of its word and counts.
Row = tuple[list[int], np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Words:
    """A text and the first and one past the last character of each of its words."""

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def joined(cls, words: Sequence[str]) -> "Words":
        """Returns words as a text, with blanks where the script has them."""
        text, starts = join_words(words)
        return cls(text, [(start, start + len(word)) for start, word in zip(starts, words, strict=True)])


@dataclasses.dataclass(frozen=True)
class Entity:
    """A stretch of a text: its characters, what it is, and where it stands: `text[start:end]`."""

    text: str
    type: str
    start: int
    end: int


def words_of(text: str, tokenizer: Tokenizer) -> Words:
    """Returns the words of a plain text, as the tokenizer parts them: BERT's at blanks, punctuation and ideographs.

    A piece that is a blank, as SentencePiece has them, belongs to no word.
    """
    pieces = tokenizer.encode(text)
    spans: list[tuple[int, int]] = []
    begins = True
    for (first, end), opens in zip(pieces.spans, pieces.word_start, strict=True):
        begins = begins or bool(opens)
        if not text[first:end].strip():
            continue
        if begins:
            spans.append((first, end))
        else:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        begins = False
    return Words(text, spans)


def text_offset(frame, padding=0):
    """Returns how many tokens stand before a single text, in rows with so much padding: special ones, and padding on the left."""
    special = next(place for place, part in enumerate(frame.of_texts(1)) if part.text is not None)
    return special + padding if frame.pads_left else special


def pack_words(rows: Sequence[Row], tokenizer: Tokenizer, max_sequence_length: int, frame) -> dict[str, np.ndarray]:
    """Returns framed texts.

    Args:
        rows: of each text, or of its windows.

    Returns:
        token_ids, segment_ids, word_ids int32, padding_mask bool, label_weights float32, all (N, L).
    """
    capacity = max_text_tokens(1, max_sequence_length, frame)
    packed = pack_ids(
        [list(ids[:capacity]) for ids, _, _ in rows], None, tokenizer.vocabulary, max_sequence_length, frame
    )
    shape = packed["token_ids"].shape
    word_ids, weights = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for row, (_, words, opens) in enumerate(rows):
        first = text_offset(frame, np.sum(~packed["padding_mask"][row]))
        place = slice(first, first + len(words[:capacity]))
        word_ids[row, place], weights[row, place] = words[:capacity], opens[:capacity]
    return {**packed, "word_ids": word_ids, "label_weights": weights}


def encode_words(texts: Sequence[Words], tokenizer: Tokenizer) -> list[Row]:
    """Returns the tokens of each text."""
    found: list[Pieces] = tokenizer.encode_batch([each.text for each in texts])
    return [(p.ids, *align(p, [first for first, _ in each.spans])) for p, each in zip(found, texts, strict=True)]


def stride_of(doc_stride: int | None, max_sequence_length: int, frame) -> int:
    """Returns tokens from the beginning of one window to that of the next. Raises a UsageError where windows would lie apart."""
    capacity = max_text_tokens(1, max_sequence_length, frame)
    if capacity < 1 or (doc_stride or 0) > capacity:
        raise UsageError(
            f"--doc_stride={doc_stride or 'half a window'}: windows of {capacity} tokens (--max_seq_length={max_sequence_length} less "
            "special tokens) would lie apart, and words between them have no tag. Lower it, or raise --max_seq_length."
        )
    return doc_stride or max(1, capacity // 2)


def windows_of(rows: Sequence[Row], doc_stride: int | None, max_sequence_length: int, frame) -> list[list[Row]]:
    """Returns the windows of each text, at least one. A word counts in one of them, in which most of the text stands around its
    first token (Google's max-context)."""
    capacity, stride = max_text_tokens(1, max_sequence_length, frame), stride_of(doc_stride, max_sequence_length, frame)
    found = []
    for ids, words, opens in rows:
        places = windows(len(ids), capacity, stride)
        parts = [slice(start, start + length) for start, length in places]
        most = most_context(places, len(ids))
        found.append([(list(ids[p]), words[p], opens[p] * each) for p, each in zip(parts, most, strict=True)])
    return found


def as_spans(tags: Sequence[str], spans: bool) -> list[str]:
    """Returns BIO tags; of tags that are none, such as parts of speech, each word is a span of its own."""
    return list(tags) if spans else [f"B-{tag}" for tag in tags]


def entities(words: Words, tags: Sequence[str]) -> list[Entity]:
    """Returns the stretches that BIO tags name. One that begins with I-, as its type changes, is one nevertheless (as in
    conlleval)."""
    found: list[list] = []
    previous = OUTSIDE
    for (first, end), tag in zip(words.spans, tags, strict=True):
        prefix, _, kind = tag.partition("-")
        if tag != OUTSIDE and (prefix == "B" or kind != previous.partition("-")[2]):
            found.append([kind, first, end])
        elif tag != OUTSIDE:
            found[-1][2] = end
        previous = tag
    return [Entity(words.text[first:end], kind, first, end) for kind, first, end in found]
