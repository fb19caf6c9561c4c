"""How one or two texts become one sequence, such as `[CLS] A [SEP] B [SEP]`; `frames` lists those of the families.

`data_pipelines.ops.serving_text` does the same inside a graph; a test holds the two together.
"""

import numpy as np

from data_pipelines.errors import DataError, UsageError
from data_pipelines.text import cuts
from data_pipelines.text.codes import Codes
from data_pipelines.text.frames import BERT, Frame
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary

Orders = tuple[tuple[int, ...], ...]


def pack(
    first: list[int], second: list[int] | None, vocabulary: Vocabulary, max_sequence_length: int, frame: Frame = BERT
) -> tuple[list[int], list[int]]:
    """Frames and, where too long, shortens one text or a pair.

    Args:
        first: the ids of the first text, without special tokens.
        second: those of the second text, or None. An empty second text still gets its special tokens.
        vocabulary: knows the ids of the special tokens.
        max_sequence_length: counts the special tokens. Pieces go from the end of the longer text, and from
            the second where both are equally long, as in Google's code.
        frame: where the special tokens stand.

    Returns:
        token_ids, and segment_ids, for `BERT` 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`.
    """
    num_texts = 2 if second is not None else 1
    capacity = max_text_tokens(num_texts, max_sequence_length, frame)
    lengths = shorten(len(first), len(second or []), capacity)
    kept = [text[:length] for text, length in zip((first, second or []), lengths, strict=True)]
    token_ids, segment_ids = [], []
    for part in frame.of_texts(num_texts):
        ids = [vocabulary[part.role]] if part.text is None else kept[part.text]
        token_ids += ids
        segment_ids += [part.segment] * len(ids)
    return token_ids, segment_ids


def _check_once(token: str, identity: int, packed: list[tuple[list[int], list[int]]]) -> None:
    for row, (ids, _) in enumerate(packed):
        if (count := ids.count(identity)) != 1:
            raise DataError(
                f"Text {row + 1}: holds the special token {token} itself, so that it would stand {count} times; expected "
                "once, behind the text. Take it out of the text."
            )


def shorten(first: int, second: int, capacity: int) -> tuple[int, int]:
    """Returns the lengths of two texts after pieces went from the longer, and from the second where both are equally long."""
    if first + second <= capacity:
        return first, second
    half = capacity // 2
    if second <= half:
        return capacity - second, second
    if first <= capacity - half:
        return first, capacity - first
    return capacity - half, half


def max_text_tokens(num_texts: int, max_sequence_length: int, frame: Frame = BERT) -> int:
    """Returns how many pieces fit beside the special tokens."""
    special = frame.num_special(num_texts)
    if max_sequence_length < special:
        raise UsageError(
            f"`max_sequence_length` must be at least {special}, to hold the special tokens, such as [CLS] and [SEP], "
            f"around {num_texts} text(s). Received: max_sequence_length={max_sequence_length}."
        )
    return max_sequence_length - special


def pack_texts(
    texts, tokenizer: Tokenizer, max_sequence_length: int, frame: Frame = BERT, orders: Orders | None = None,
    coded: bool = False,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Returns many framed texts, padded to the longest of them, rounded up to a multiple of 8.

    Args:
        texts: N tuples of one or two strings.
        max_sequence_length: counts the special tokens; longer inputs are shortened.
        orders: in which texts are read, such as ((0, 1), (1, 0)); None reads them once, as they stand.
        coded: whether what the vocabulary knows of each token may be a `CodedArray`, for many texts. With orders it is none.

    Returns:
        token_ids and segment_ids int32, padding_mask bool, all (N, L), or with C `orders` (N, C, L); and what else the vocabulary
        knows of each token, such as character_ids int32 (N, L, 50).
    """
    columns = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in zip(*texts, strict=True)]
    return pack_columns(columns, tokenizer.vocabulary, max_sequence_length, frame, orders, coded)


def pack_columns(
    columns: list[list[list[int]]], vocabulary: Vocabulary, max_sequence_length: int, frame: Frame = BERT,
    orders: Orders | None = None, coded: bool = False,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Works as `pack_texts`, of one or two columns of texts that are ids already."""
    if orders is None:
        seconds = columns[1] if len(columns) > 1 else None
        return pack_ids(columns[0], seconds, vocabulary, max_sequence_length, frame, coded)
    first, *others = ([columns[text] for text in order] for order in orders)
    packed = [pack_ids(*first, vocabulary, max_sequence_length, frame)]
    with cuts.count_cuts():  # an input that is read in several orders is cut once
        packed += [pack_ids(*each, vocabulary, max_sequence_length, frame) for each in others]
    return {name: np.stack([arrays[name] for arrays in packed], axis=1) for name in packed[0]}


def pack_ids(
    firsts: list[list[int]], seconds: list[list[int]] | None, vocabulary: Vocabulary, max_sequence_length: int,
    frame: Frame = BERT, coded: bool = False,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Works as `pack_texts`, of texts that are ids already; `seconds` is None where there is one text in a row.

    Raises:
        DataError: a text holds the special token that may stand once only.
    """
    seconds_or_none = [None] * len(firsts) if seconds is None else seconds
    packed = [pack(a, b, vocabulary, max_sequence_length, frame) for a, b in zip(firsts, seconds_or_none, strict=True)]
    special = frame.num_special(1 if seconds is None else 2)
    whole = (special + len(a) + len(b or ()) for a, b in zip(firsts, seconds_or_none, strict=True))
    cuts.add(length - len(ids) for length, (ids, _) in zip(whole, packed, strict=True))
    if frame.once:
        _check_once(frame.once, vocabulary[frame.once], packed)
    longest = max(1, max(len(ids) for ids, _ in packed))  # a frame may be empty, as the texts may
    shape = len(packed), min(max_sequence_length, -(-longest // 8) * 8)
    token_ids = np.full(shape, vocabulary.padding_id, np.int32)
    segment_ids, padding_mask = np.full(shape, frame.pad_segment, np.int32), np.zeros(shape, bool)
    codes, features = Codes(vocabulary), vocabulary.features.items()
    further = {n: np.zeros(shape if coded else (*shape, *each.shape[1:]), np.int32) for n, each in features}
    for row, (ids, segments) in enumerate(packed):
        place = slice(shape[1] - len(ids), None) if frame.pads_left else slice(len(ids))
        token_ids[row, place] = ids
        segment_ids[row, place] = segments
        padding_mask[row, place] = True
        for name, values in (codes.of(ids) if coded else vocabulary.token_features(ids)).items():
            further[name][row, place] = values
    further = codes.arrays(further) if coded else further
    return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask, **further}
