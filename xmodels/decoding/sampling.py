"""Continues texts token by token: greedily, or by sampling.

A model is given by two functions: `decode(token_ids (B, L), past, position) -> (states (B, L, D), past)`, which does not
recompute earlier tokens, and `logits(states (..., D)) -> (..., V)`.
"""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from xmodels.layers.dropout import StepSeed


def greedy(logits, position):
    """Returns the most probable token: (B, V) -> int32 (B,)."""
    return ops.cast(ops.argmax(logits, axis=-1), "int32")


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
        return ops.cast(ops.argmax(logits + gumbel, axis=-1), "int32")

    return pick


def generate(
    decode: Callable, logits: Callable, past, prompt_ids, prompt_lengths, max_length: int,
    end_id: int | None = None, pad_id: int = 0, pick: Callable = greedy, filters: Sequence[Callable] = (), read=None,
    limits=None,
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

    Returns:
        int (B, max_length) texts with their prompts, and int (B,) their lengths, including the end token.
    """
    prompt_ids, prompt_lengths = ops.cast(prompt_ids, "int32"), ops.cast(prompt_lengths, "int32")
    token_ids = ops.pad(prompt_ids, ((0, 0), (0, max_length - prompt_ids.shape[1])), constant_values=pad_id)
    real = ops.arange(max_length) < ops.expand_dims(prompt_lengths, 1)
    token_ids = ops.where(real, token_ids, pad_id)
    if read is None:
        # All prompts are read at once, up to the longest. After a shorter one, positions are read again one by one, which
        # overwrites the keys and values of its padding; no earlier position has attended to these.
        states, past = decode(prompt_ids, past, 0)  # (B, P, D)
        first = ops.min(prompt_lengths)
        state = ops.take(states, first - 1, axis=1)  # (B, D)
    else:
        first, state = read
    limits = ops.full_like(prompt_lengths, max_length) if limits is None else ops.cast(limits, "int32")
    ended = limits <= prompt_lengths

    def is_unfinished(position, token_ids, state, ended, lengths, past):
        return ops.logical_and(position < max_length, ops.logical_not(ops.all(ended)))

    def step(position, token_ids, state, ended, lengths, past):
        scores = logits(state)  # (B, V)
        for change in filters:
            scores = change(scores, token_ids, position)
        given = position < prompt_lengths  # (B,)
        token = ops.where(ended, pad_id, pick(scores, position))
        token = ops.where(given, ops.take(token_ids, position, axis=1), token)
        token_ids = ops.where(ops.equal(ops.arange(max_length), position), ops.expand_dims(token, 1), token_ids)
        lengths = ops.where(ops.logical_or(given, ended), lengths, position + 1)
        if end_id is not None:
            ended = ops.logical_or(ended, ops.logical_and(ops.logical_not(given), ops.equal(token, end_id)))
        ended = ops.logical_or(ended, position + 1 >= limits)
        states, past = decode(ops.expand_dims(token, 1), past, position)
        return position + 1, token_ids, states[:, 0], ended, lengths, past

    variables = (first, token_ids, state, ended, prompt_lengths, past)
    _, token_ids, _, _, lengths, _ = ops.while_loop(is_unfinished, step, variables, maximum_iterations=max_length)
    return token_ids, lengths
