"""Likelihood of a long text under a network that reads so many tokens: windows that slide over it.

A window begins `stride` tokens behind the one before it, and of its tokens those are scored that no window before it has scored.
So every token is scored once, all but the first window's with at least length - stride tokens before them. A stride of the whole
length cuts the text into blocks; a stride of 1 gives every token all the context that there is room for.
"""

import dataclasses

import numpy as np
from tqdm.auto import tqdm

from xmodels.tasks.language_model.scorer import Scorer, logarithms


@dataclasses.dataclass(frozen=True)
class Windows:
    """Rows of one shape: windows, and the tokens that each scores, at most `stride`.

    The first window scores as many as it is long, so it stands in several rows.

    Attributes:
        starts: int (R,), where the input begins in the text.
        first, end: int (R,), the tokens first, ..., end - 1 of the text are scored.
    """

    starts: np.ndarray
    first: np.ndarray
    end: np.ndarray


def plan(num_tokens: int, length: int, stride: int) -> Windows:
    """Returns the rows for the tokens 1, ..., `num_tokens` - 1 of a text; token 0 is context only."""
    last = num_tokens - 1
    slid = np.arange(1, 1 + max(0, -(-(last - length) // stride))) * stride  # where windows begin, but for the first
    inside = np.arange(1, min(length, last) + 1, stride)  # the first window, so many at a time
    first = np.concatenate([inside, slid + length - stride + 1])
    end = np.concatenate([inside + stride, slid + length + 1])
    bounds = np.concatenate([np.full(len(inside), min(length, last) + 1), np.full(len(slid), num_tokens)])
    return Windows(np.concatenate([np.zeros_like(inside), slid]), first, np.minimum(end, bounds))


def score(scorer: Scorer, ids: np.ndarray, length: int, stride: int, batch_size: int) -> float:
    """Returns -log p of the tokens behind the first, in nats.

    Args:
        ids: int32 (N,).
        length: tokens that the network reads at once.
        batch_size: windows at a time.
    """
    rows = plan(len(ids), length, stride)
    padded = np.pad(ids, (0, length + 1))
    total, places = 0.0, np.arange(length)
    bar = tqdm(total=len(ids) - 1, desc="tokens", unit="token", unit_scale=True, disable=len(rows.starts) < 50)
    with bar as progress:
        for begin in range(0, len(rows.starts), batch_size):
            # Rows that fill up the last batch score nothing: they end where they begin.
            starts, first, end = (
                np.pad(x[begin : begin + batch_size], (0, max(0, begin + batch_size - len(x))))
                for x in (rows.starts, rows.first, rows.end)
            )
            token_ids = padded[starts[:, None] + places]  # (B, L)
            scored = first[:, None] + np.arange(stride)  # (B, P), places in the text
            real = scored < end[:, None]
            scored = np.where(real, scored, starts[:, None] + 1)
            lengths = np.clip(len(ids) - starts, 1, length).astype(np.int32)
            positions = (scored - 1 - starts[:, None]).astype(np.int32)
            losses, _ = scorer.score(token_ids, lengths, positions, padded[scored], np.zeros(scored.shape, bool))
            total += float(logarithms(losses)[real].sum())
            progress.update(int(real.sum()))
    return total
