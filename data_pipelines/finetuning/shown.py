"""Texts of records, as `inspect_data` shows them."""

from collections.abc import Sequence

import numpy as np


def words(ids: Sequence[int], tokens: list[str]) -> str:
    """Returns the tokens of ids, with blanks between them."""
    return " ".join(tokens[i] for i in ids)


def pair(ids: np.ndarray, lengths: np.ndarray, tokens: list[str]) -> str:
    """Returns one text, or two with a bar between them.

    Args:
        ids: (L,) of both, one behind the other; may be padded.
        lengths: (2,) of each.
    """
    first, second = words(ids[: lengths[0]], tokens), words(ids[lengths[0] : lengths.sum()], tokens)
    return f"{first} | {second}" if lengths[1] else first
