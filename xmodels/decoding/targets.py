"""Generates the targets of an encoder-decoder token by token: greedily, by sampling, or by beam search.

A network has `start(features, length)`, which encodes the sources and returns a dictionary of which only `past` changes, and
`decode(target_ids (B, T), dictionary, position) -> (states (B, T, D), dictionary)`, which does not recompute earlier tokens.
"""

import dataclasses
from collections.abc import Callable

from keras import ops

from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.memory import memory_for
from xmodels.decoding.options import Decoding
from xmodels.decoding.ranked_beam import ranked_beam_search
from xmodels.decoding.sampling import generate

EXTRA_TOKENS = 50  # the most tokens by which a target exceeds its source (Vaswani et al., 2017, section 6.1)


def write_targets(
    backbone, logits: Callable, features, decoding: Decoding, seed, start_id: int, end_id: int, limits, max_length: int
):
    """Generates the targets of sources.

    Args:
        backbone: the network.
        logits: (states (..., D)) -> (..., V).
        features: `token_ids` int (B, S) and `padding_mask` bool (B, S).
        decoding: the settings; beam search if its `num_beams` is above 1.
        seed: two integers, for sampling.
        start_id: the first token that the decoder reads.
        end_id: the token that ends a target.
        limits: int (B,), most tokens of each target, including its end token; at most `max_length`.
        max_length: the length of the result.

    Returns:
        int (B, max_length) targets, whose tokens beyond their lengths are meaningless; and int (B,) their lengths, without the
        end token.
    """
    starts = ops.full_like(limits, start_id)
    how = search if decoding.num_beams > 1 else draw
    target_ids = how(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length)
    place = ops.arange(max_length, dtype="int32")
    ends = ops.logical_or(ops.equal(target_ids, end_id), place >= ops.expand_dims(limits, 1))
    before = ops.cumsum(ops.cast(ends, "int32"), axis=1) < 1
    return target_ids, ops.sum(ops.cast(before, "int32"), axis=1)


def draw(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length):
    """Generates targets greedily or by sampling, as `decoding` says: int (B, max_length)."""
    texts, _ = generate(
        backbone.decode, logits, backbone.start(features, max_length + 1), ops.expand_dims(starts, 1),
        ops.ones_like(starts), max_length + 1, end_id, pick=decoding.pick(seed),
        filters=decoding.target_filters(limits, end_id),
    )  # fmt: skip
    return texts[:, 1:]


def search(backbone, logits, features, decoding, seed, starts, end_id, limits, max_length):
    """Returns the best target of a beam search: int (B, max_length)."""
    return beam_search_targets(backbone, logits, features, decoding, starts, end_id, limits, max_length)[0][:, 0, 1:]


def beam_search_targets(backbone, logits, features, decoding, starts, end_id: int, limits, max_length: int):
    """Returns all targets of a beam search, best first, and their scores.

    Returns:
        int (B, K, max_length + 1) targets with their first token, and float32 (B, K) scores.
    """
    beams = decoding.num_beams
    memory = memory_for(backbone, beams, max_length)
    started = backbone.start(features, memory.slots)
    # What does not change is kept outside of the state, so it is not reordered with the beams.
    source = memory.repeat_for_beams({name: value for name, value in started.items() if name != "past"})
    # Only those that can change which token is the most probable.
    filters = dataclasses.replace(decoding, temperature=0.0).target_filters(ops.repeat(limits, beams, axis=0), end_id)

    def decode(token_ids, past, place):
        states, after = backbone.decode(token_ids, {**source, "past": past}, place)
        return states, after["past"]

    def step(token_ids, position, state):
        states, state = memory.read(decode, ops.take(token_ids, position, axis=1), state, position)
        return logits(states), state

    def filtered_step(token_ids, position, state):
        scores, state = step(token_ids, position, state)
        for change in filters:
            scores = change(scores, token_ids, position + 1)
        return scores, state

    numbers = started["past"], starts, beams, max_length, end_id
    if decoding.ranked:
        return ranked_beam_search(
            step, *numbers, decoding.length_penalty, decoding.early_stopping, limits, filters, memory
        )  # fmt: skip
    penalty = gnmt_penalty(decoding.length_penalty)
    return beam_search(filtered_step, *numbers, penalty, limits=limits, memory=memory)
