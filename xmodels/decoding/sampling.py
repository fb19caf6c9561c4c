"""Continues texts token by token: greedily, or by sampling.

A model is given by two functions: `decode(token_ids (B, L), past, position) -> (states (B, L, D), past)`, which does not
recompute earlier tokens, and `logits(states (..., D)) -> (..., V)`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from xmodels.decoding.selection import most_probable
from xmodels.layers.attention.places import Beams
from xmodels.layers.dropout import StepSeed


def greedy(logits, position):
    """Returns the most probable token: (B, V) -> int32 (B,)."""
    return most_probable(logits)


def sample(seed):
    """Returns a function like `greedy` that samples a token from the softmax of the logits.

    Args:
        seed: two integers. Equal seeds, positions and logits give equal tokens.
    """

    def pick(logits, position):
        numbers = ops.cast(ops.convert_to_tensor(seed), "uint32")
        here = StepSeed(ops.stack([numbers[0], numbers[1] + ops.cast(position, "uint32")]))
        noise = keras.random.uniform(ops.shape(logits), minval=1e-20, maxval=1.0, seed=here)
        gumbel = -ops.log(-ops.log(noise))  # the argmax of logits + Gumbel noise is a sample from their softmax
        return most_probable(logits + gumbel)

    return pick


def generate(
    decode: Callable, logits: Callable, past, prompt_ids, prompt_lengths, max_length: int,
    end_id: int | None = None, pad_id: int = 0, pick: Callable = greedy, filters: Sequence[Callable] = (), read=None,
    limits=None, slots: int | None = None,
):  # fmt: skip
    """Continues each prompt until its end token, or until it has `max_length` tokens in all.

    Args:
        decode, logits: the model, see above.
        past: the initial `past` of `decode` for texts of `max_length` tokens.
        prompt_ids: int (B, P), padded on the right; P at most `max_length`.
        prompt_lengths: int (B,), at least 1.
        max_length: the length of the result.
        end_id: the token that ends a text; None for none.
        pad_id: the token after the end of a text.
        pick: (logits (B, V), position) -> the next token, int (B,).
        filters: from `decoding.filters`, applied before `pick`.
        read: (number, state (B, D)) if `past` holds so many tokens of all prompts already, at least 1, with the state of the
            last of them. Needed by networks that cannot go back to an earlier position: the rest of the prompts is then read
            token by token.
        limits: int (B,), most tokens of each text in all; by default `max_length`.
        slots: the tokens that `past` has room for, P and those that are written, for networks with `places_texts`: all texts go on
            from their own lengths at once. By default longer prompts are read again token by token, while shorter ones go on.

    Returns:
        int (B, max_length) texts with their prompts, and int (B,) their lengths, including the end token.
    """
    prompt_ids, prompt_lengths = ops.cast(prompt_ids, "int32"), ops.cast(prompt_lengths, "int32")
    token_ids = ops.pad(prompt_ids, ((0, 0), (0, max_length - prompt_ids.shape[1])), constant_values=pad_id)
    real = ops.arange(max_length) < ops.expand_dims(prompt_lengths, 1)
    token_ids = ops.where(real, token_ids, pad_id)
    rows, places = ops.shape(prompt_ids)[0], _one_place
    if read is not None:
        first, state = read
    else:  # all prompts are read at once, up to the longest
        states, past = decode(prompt_ids, past, 0)  # (B, P, D)
        if slots is None:
            # After a shorter prompt, positions are read again one by one, which overwrites the keys and values of its padding; no
            # earlier position has attended to these.
            first = ops.min(prompt_lengths)
            state = ops.take(states, first - 1, axis=1)  # (B, D)
        else:
            first, places = 0, _SideBySide(prompt_lengths, prompt_ids.shape[1], slots, max_length)
            state = ops.take_along_axis(states, ops.reshape(prompt_lengths - 1, (-1, 1, 1)), axis=1)[:, 0]
    limits = ops.full_like(prompt_lengths, max_length) if limits is None else ops.cast(limits, "int32")
    limits = ops.minimum(limits, max_length)
    ended = limits <= prompt_lengths

    def is_unfinished(number, token_ids, state, ended, lengths, past):
        return ops.logical_and(number < max_length, ops.logical_not(ops.all(ended)))

    def step(number, token_ids, state, ended, lengths, past):
        position, draw, place = places(number)
        scores = logits(state)  # (B, V)
        for change in filters:
            scores = change(scores, token_ids, position)
        given = position < prompt_lengths  # (B,)
        token = ops.where(ended, pad_id, pick(scores, draw))
        column = ops.broadcast_to(ops.reshape(position, (-1, 1)), (rows, 1))
        token = ops.where(given, ops.take_along_axis(token_ids, column, axis=1)[:, 0], token)
        token = ops.reshape(token, ops.shape(prompt_lengths))  # a number of texts that is static stays so in the loop
        is_new = ops.logical_and(ops.equal(ops.arange(max_length), column), ops.expand_dims(ops.logical_not(ended), 1))
        token_ids = ops.where(is_new, ops.expand_dims(token, 1), token_ids)
        lengths = ops.where(ops.logical_or(given, ended), lengths, position + 1)
        if end_id is not None:
            ended = ops.logical_or(ended, ops.logical_and(ops.logical_not(given), ops.equal(token, end_id)))
        ended = ops.logical_or(ended, position + 1 >= limits)
        states, past = decode(ops.expand_dims(token, 1), past, place)
        return number + 1, token_ids, states[:, 0], ended, lengths, past

    variables = (ops.cast(first, "int32"), token_ids, state, ended, prompt_lengths, past)
    _, token_ids, _, _, lengths, _ = ops.while_loop(is_unfinished, step, variables, maximum_iterations=max_length)
    return token_ids, lengths


def _one_place(number):
    """Returns the position of a token of that number, for what it is drawn, and its place, where all texts are at the same one."""
    return number, number, number


@dataclasses.dataclass(frozen=True)
class _SideBySide:
    """Places of texts of different lengths, whose new tokens stand in the same slots of `past`, behind those of the longest prompt.

    Called with the number of a new token, from 0, it returns the position in each text, int (B,); the position for which the token
    is drawn, which texts have alone or beside texts of their length; and the place.

    Attributes:
        lengths: int (B,), of the prompts.
        width: P, the slots of prompts; those behind a shorter one are seen by nothing.
        slots: all slots.
        max_length: tokens of a text in all.
    """

    lengths: Any
    width: int
    slots: int
    max_length: int

    def __call__(self, number):
        position = ops.minimum(self.lengths + number, self.max_length - 1)  # ended texts stay where they are
        slots, slot = ops.arange(self.slots, dtype="int32"), self.width + number
        is_new = ops.logical_and(slots >= self.width, slots <= slot)  # (S,)
        seen = ops.logical_or(slots < ops.expand_dims(self.lengths, 1), is_new)  # (B, S)
        return position, ops.max(self.lengths) + number, Beams(position, slot, ops.expand_dims(seen, 1))
