"""Likelihood of a long text under a network with a memory (Dai et al., 2019): segment by segment, each sees those before it.

Every token is scored once, at the cost of one pass. With one stream nothing is cut; several go side by side, each over its share
of the text, and each begins without a past.
"""

import numpy as np
from tqdm.auto import tqdm

from xmodels.tasks.language_model.scorer import Scorer, logarithms


def score(scorer: Scorer, ids: np.ndarray, length: int, memory_length: int, num_streams: int) -> float:
    """Returns -log p of the tokens behind the first, in nats.

    Args:
        ids: int32 (N,).
        length: tokens of a segment.
        memory_length: states of each layer that the next segment sees; 0 for none.
        num_streams: streams side by side.
    """
    num_tokens = len(ids) - 1
    share = -(-num_tokens // num_streams)
    length = min(length, share)
    num_segments = -(-share // length)
    places = np.arange(num_streams)[:, None] * share + np.arange(num_segments * length)  # (B, segments * N)
    inside = (np.arange(num_segments * length) < share) & (places < num_tokens)
    # What fills up the last segment stands behind all that is scored, so nothing sees it.
    places = np.where(inside, places, 0)
    past = scorer.backbone.initial_memory(num_streams, memory_length)
    total = 0.0
    bar = tqdm(
        total=num_tokens, desc=f"memory {memory_length}", unit="token", unit_scale=True, disable=num_segments < 50
    )
    with bar as progress:
        for begin in range(0, num_segments * length, length):
            here, real = places[:, begin : begin + length], inside[:, begin : begin + length]
            losses, past = scorer.advance(ids[here], ids[here + 1], past)
            total += float(logarithms(losses)[real].sum())
            progress.update(int(real.sum()))
    return total
