"""How one or two texts become one sequence: `[CLS] A [SEP] B [SEP]` (Devlin et al., 2018, section 3).

`data_pipelines.ops.serving_text` does the same inside a graph; a test holds the two together.
"""

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary


def pack(
    first: list[int], second: list[int] | None, vocabulary: Vocabulary, max_sequence_length: int
) -> tuple[list[int], list[int]]:
    """Frames and, where too long, shortens one text or a pair.

    Args:
        first: the ids of the first text, without special tokens.
        second: those of the second text, or None. An empty second text still gets its `[SEP]`.
        vocabulary: knows the ids of `[CLS]` and `[SEP]`.
        max_sequence_length: counts the special tokens. Pieces go from the end of the longer text, and from
            the second where both are equally long, as in Google's code.

    Returns:
        token_ids, and segment_ids: 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`.
    """
    room = room_for_text(2 if second is not None else 1, max_sequence_length)
    first_length, second_length = shorten(len(first), len(second or []), room)
    cls, sep = vocabulary[CLS], vocabulary[SEP]
    token_ids = [cls, *first[:first_length], sep]
    segment_ids = [0] * len(token_ids)
    if second is not None:
        token_ids += [*second[:second_length], sep]
        segment_ids += [1] * (second_length + 1)
    return token_ids, segment_ids


def shorten(first: int, second: int, room: int) -> tuple[int, int]:
    """The lengths of two texts after pieces went from the longer, and from the second where both are equally long."""
    if first + second <= room:
        return first, second
    half = room // 2
    if second <= half:
        return room - second, second
    if first <= room - half:
        return first, room - first
    return room - half, half


def room_for_text(num_texts: int, max_sequence_length: int) -> int:
    """How many pieces fit beside the special tokens."""
    special = num_texts + 1
    if max_sequence_length < special:
        raise UsageError(
            f"`max_sequence_length` must be at least {special}, to hold [CLS] and a [SEP] after each of "
            f"{num_texts} text(s). Received: max_sequence_length={max_sequence_length}."
        )
    return max_sequence_length - special


def pack_texts(texts, tokenizer: Tokenizer, max_sequence_length: int) -> dict[str, np.ndarray]:
    """Many framed texts, padded to the longest of them, rounded up to a multiple of 8.

    Args:
        texts: N tuples of one or two strings.
        max_sequence_length: counts the special tokens; longer inputs are shortened.

    Returns:
        token_ids and segment_ids int32, padding_mask bool, all (N, L).
    """
    columns = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in zip(*texts, strict=True)]
    return pack_ids(columns[0], columns[1] if len(columns) > 1 else None, tokenizer.vocabulary, max_sequence_length)


def pack_ids(
    firsts: list[list[int]], seconds: list[list[int]] | None, vocabulary: Vocabulary, max_sequence_length: int
) -> dict[str, np.ndarray]:
    """As `pack_texts`, of texts that are ids already; `seconds` is None where there is one text in a row."""
    seconds_or_none = [None] * len(firsts) if seconds is None else seconds
    packed = [pack(a, b, vocabulary, max_sequence_length) for a, b in zip(firsts, seconds_or_none, strict=True)]
    longest = max(len(ids) for ids, _ in packed)
    shape = len(packed), min(max_sequence_length, -(-longest // 8) * 8)
    token_ids = np.full(shape, vocabulary[PAD], np.int32)
    segment_ids, padding_mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for row, (ids, segments) in enumerate(packed):
        token_ids[row, : len(ids)] = ids
        segment_ids[row, : len(ids)] = segments
        padding_mask[row, : len(ids)] = True
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
