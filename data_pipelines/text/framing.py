"""How one or two texts become one sequence: `[CLS] A [SEP] B [SEP]` (Devlin et al., 2018, section 3).

`data_pipelines.ops.serving_text` does the same inside a graph; a test holds the two together.
"""

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer


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
    first_length, second_length = len(first), len(second or [])
    while first_length + second_length > room:
        if first_length > second_length:
            first_length -= 1
        else:
            second_length -= 1
    cls, sep = vocabulary[CLS], vocabulary[SEP]
    token_ids = [cls, *first[:first_length], sep]
    segment_ids = [0] * len(token_ids)
    if second is not None:
        token_ids += [*second[:second_length], sep]
        segment_ids += [1] * (second_length + 1)
    return token_ids, segment_ids


def room_for_text(num_texts: int, max_sequence_length: int) -> int:
    """How many pieces fit beside the special tokens."""
    special = num_texts + 1
    if max_sequence_length < special:
        raise UsageError(
            f"`max_sequence_length` must be at least {special}, to hold [CLS] and a [SEP] after each of "
            f"{num_texts} text(s). Received: max_sequence_length={max_sequence_length}."
        )
    return max_sequence_length - special


def pack_texts(texts, tokenizer: WordPieceTokenizer, max_sequence_length: int) -> dict[str, np.ndarray]:
    """Many framed texts, padded to the longest of them, rounded up to a multiple of 8.

    Args:
        texts: N tuples of one or two strings.
        max_sequence_length: counts the special tokens; longer inputs are shortened.

    Returns:
        token_ids and segment_ids int32, padding_mask bool, all (N, L).
    """
    columns = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in zip(*texts, strict=True)]
    seconds = columns[1] if len(columns) > 1 else [None] * len(texts)
    vocabulary = tokenizer.vocabulary
    packed = [pack(a, b, vocabulary, max_sequence_length) for a, b in zip(columns[0], seconds, strict=True)]
    longest = max(len(ids) for ids, _ in packed)
    shape = len(packed), min(max_sequence_length, -(-longest // 8) * 8)
    token_ids = np.full(shape, vocabulary[PAD], np.int32)
    segment_ids, padding_mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for row, (ids, segments) in enumerate(packed):
        token_ids[row, : len(ids)] = ids
        segment_ids[row, : len(ids)] = segments
        padding_mask[row, : len(ids)] = True
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
