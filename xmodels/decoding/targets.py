"""Writes the targets of an encoder-decoder token by token: greedily, by draws, or by beam search.

A network is given by `start(features, length)`, which encodes the sources and gives a dictionary of which only `past` changes,
and by `decode(target_ids (B, T), that, position) -> (states (B, T, D), that)`, the cost of which is that of the T tokens.
"""

import dataclasses
from collections.abc import Callable

import keras
from keras import ops

from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.options import Decoding
from xmodels.decoding.ranked_beam import ranked_beam_search
from xmodels.decoding.sampling import generate

EXTRA_TOKENS = 50  # a target has at most so many tokens more than its source (Vaswani et al., 2017, section 6.1)


def write_targets(
    backbone, logits: Callable, features, decoding: Decoding, seed, start_id: int, end_id: int, limits, max_length: int
):
    """The targets of sources.

    Args:
        logits: (states (..., D)) -> (..., V).
        features: `token_ids` (B, S) and `padding_mask` (B, S).
        decoding: its `num_beams` decides between beam search and the others.
        seed: two integers, of draws.
        start_id: what the decoder reads first.
        limits: int (B,), most tokens of each target, with its end token; at most `max_length`.

    Returns:
        int (B, max_length) targets, of which what stands behind their length means nothing; and int (B,) their lengths,
        without the end token.
    """
    starts = ops.full_like(limits, start_id)
    how = search if decoding.num_beams > 1 else draw
    target_ids = how(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length)
    place = ops.arange(max_length, dtype="int32")
    ends = ops.logical_or(ops.equal(target_ids, end_id), place >= ops.expand_dims(limits, 1))
    before = ops.cumsum(ops.cast(ends, "int32"), axis=1) < 1
    return target_ids, ops.sum(ops.cast(before, "int32"), axis=1)


def draw(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length):
    """Greedily or by draws, as `decoding` says: int (B, max_length)."""
    texts, _ = generate(
        backbone.decode, logits, backbone.start(features, max_length + 1), ops.expand_dims(starts, 1),
        ops.ones_like(starts), max_length + 1, end_id, pick=decoding.pick(seed),
        filters=decoding.target_filters(limits, end_id),
    )  # fmt: skip
    return texts[:, 1:]


def search(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length):
    """The best target that a beam search finds: int (B, max_length)."""
    return searched(backbone, logits, features, decoding, starts, end_id, limits, max_length)[0][:, 0, 1:]


def searched(backbone, logits, features, decoding, starts, end_id: int, limits, max_length: int):
    """All targets that a beam search finds, best first, and their scores.

    Returns:
        int (B, K, max_length + 1) targets with their start token, and float32 (B, K) scores.
    """
    started, beams = backbone.start(features, max_length), decoding.num_beams
    # What does not change is neither carried along nor sorted with the beams.
    source = {name: value for name, value in started.items() if name != "past"}
    source = keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=0), source)
    # Those that change what is likeliest.
    filters = dataclasses.replace(decoding, temperature=0.0).target_filters(ops.repeat(limits, beams, axis=0), end_id)

    def step(token_ids, position, past):
        token = ops.expand_dims(ops.take(token_ids, position, axis=1), 1)
        states, after = backbone.decode(token, {**source, "past": past}, position)
        return logits(states[:, 0]), after["past"]

    def filtered(token_ids, position, past):
        scores, past = step(token_ids, position, past)
        for change in filters:
            scores = change(scores, token_ids, position + 1)
        return scores, past

    numbers = started["past"], starts, beams, max_length, end_id
    if decoding.ranked:
        return ranked_beam_search(
            step, *numbers, decoding.length_penalty, decoding.early_stopping, limits, filters
        )  # fmt: skip
    return beam_search(filtered, *numbers, gnmt_penalty(decoding.length_penalty), limits=limits)
