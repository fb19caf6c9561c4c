"""Texts as words with tags: arrays for a network, and the entities that tags name."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_pipelines.finetuning.tag import align
from data_pipelines.text.framing import max_text_tokens, pack_ids
from data_pipelines.text.joining import join_words
from data_pipelines.text.tokenizer import Pieces, Tokenizer

OUTSIDE = "O"
PREFIXES = ("B", "I")


@dataclasses.dataclass(frozen=True)
class Words:
    """A text and the first and one past the last character of each of its words."""

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def joined(cls, words: Sequence[str]) -> "Words":
        """Words as a text, with blanks where the script has them."""
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
    """The words of a plain text, as the tokenizer parts them: BERT's at blanks, punctuation and ideographs."""
    pieces = tokenizer.encode(text)
    spans: list[tuple[int, int]] = []
    for (first, end), opens in zip(pieces.spans, pieces.word_start, strict=True):
        if opens or not spans:
            spans.append((first, end))
        else:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
    return Words(text, spans)


def text_offset(frame, padding=0):
    """How many tokens stand before a single text, in rows with so much padding: special ones, and padding on the left."""
    special = next(place for place, part in enumerate(frame.of_texts(1)) if part.text is not None)
    return special + padding if frame.pads_left else special


def pack_words(
    rows: Sequence[tuple[Sequence[int], np.ndarray, np.ndarray]], tokenizer: Tokenizer, max_sequence_length: int, frame
) -> dict[str, np.ndarray]:
    """Framed texts.

    Args:
        rows: of each text the ids, the word of each token, and 1 where a token is the first of its word.

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


def encoded(texts: Sequence[Words], tokenizer: Tokenizer) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    """The `rows` of `pack_words`."""
    found: list[Pieces] = tokenizer.encode_batch([each.text for each in texts])
    return [(p.ids, *align(p, [first for first, _ in each.spans])) for p, each in zip(found, texts, strict=True)]


def are_spans(labels: Sequence[str]) -> bool:
    """Whether tags mark the beginnings and insides of spans, as B-PER and I-PER do."""
    return all(label == OUTSIDE or label.partition("-")[0] in PREFIXES and "-" in label for label in labels)


def as_spans(tags: Sequence[str], spans: bool) -> list[str]:
    """BIO tags; of tags that are none, such as parts of speech, each word is a span of its own."""
    return list(tags) if spans else [f"B-{tag}" for tag in tags]


def entities(words: Words, tags: Sequence[str]) -> list[Entity]:
    """The stretches that BIO tags name. One that begins with I-, as its type changes, is one nevertheless (as in conlleval)."""
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
