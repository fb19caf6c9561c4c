"""MASS (Song et al., 2019): the encoder misses fragments, the decoder writes them."""

import tensorflow as tf

from data_pipelines.ops.cloze import ordinary_ids, replace
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import without_starts
from data_pipelines.ops.joined import frame
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, Vocabulary

PREVIOUS, MASKED = "previous", "mask"


def mask_fragment(
    vocabulary: Vocabulary,
    length: int,
    rate: float = 0.5,
    window: int | None = None,
    first_input: str = PREVIOUS,
    rates: tuple[float, float] = (0.8, 0.1),
    min_length: int = 5,
) -> Op:
    """Hides floor(rate * n + 1 / 2) of n tokens in a row, at least one; K = the most that `length` allows (section 3.1).
    Of texts of fewer than `min_length` tokens none is hidden, and none is a target.

    As in the released code, the fragment opens the text in 20 % of examples, closes it in 20 %, and lies anywhere in
    the others; the first decoder input is the token before the fragment; of the hidden tokens 80 % become `[MASK]`,
    10 % stay, 10 % become random ones. Special tokens are neither hidden nor drawn. Positions of the decoder are those
    of its input tokens in the framed text.

    Reads:  token_ids and padding_mask, a text without special tokens, (B, N); seed (B,).
    Writes: token_ids, padding_mask (B, length), `[CLS] text [SEP]` with the gap; target_ids, target_position_ids,
        labels int32 (B, K), label_weights float32 (B, K).

    Args:
        window: hides a fragment in each run of so many tokens, floor(rate * window) of them, anywhere in it, as the released code
            does for summaries. The decoder writes one after the other. None: one fragment in the whole text.
        first_input: what the decoder reads before a fragment: "previous", the token that stands there, or "mask", `[MASK]`, as in
            the paper.
        rates: the shares of hidden tokens that become `[MASK]`, and a random token.
        min_length: the fewest tokens of a text, or of what a window holds of it, of which a fragment is hidden.

    Raises:
        ValueError: `first_input` is neither, or nothing is hidden at this rate or in texts or windows of this length.
    """
    cls, sep, pad, mask = (vocabulary[token] for token in (CLS, SEP, PAD, MASK))
    drawable = ordinary_ids(vocabulary)
    span = window or length - 2
    count, width = -(-(length - 2) // span), int(span * rate) if window else fragment_length(span, rate)
    _check(rate, window, first_input, span, width, min_length)
    choose = _in_each_window if window else _in_the_text

    def op(features):
        features, seed = take_seed(without_starts(features))
        token_ids, padding_mask = frame(features["token_ids"], features["padding_mask"], cls, sep, pad, length)
        n = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1, keepdims=True) - 2  # (B, 1)
        lengths = tf.clip_by_value(n - span * tf.range(count), 0, span)  # (B, count)
        first, size = choose(lengths, rate, fold(seed, 0))
        size = tf.where(lengths < min_length, 0, size)
        first += 1 + span * tf.range(count)
        place = tf.range(length)[None, :]
        of_place = tf.minimum((tf.maximum(tf.range(length), 1) - 1) // span, count - 1)  # the window of each place
        begins, ends = (tf.gather(values, of_place, axis=1) for values in (first, first + size))
        features |= _target(token_ids, first, size, width, pad, mask if first_input == MASKED else None)
        hidden = (place >= begins) & (place < ends)
        features["token_ids"] = replace(token_ids, hidden, mask, drawable, fold(seed, 1), rates=rates)
        return {**features, "padding_mask": padding_mask}

    return op


def _check(rate: float, window: int | None, first_input: str, span: int, width: int, min_length: int) -> None:
    """Raises what `mask_fragment` raises, of runs of `span` tokens of which `width` are hidden."""
    if first_input not in (PREVIOUS, MASKED):
        raise ValueError(f"`first_input` must be {PREVIOUS!r} or {MASKED!r}. Received: {first_input!r}.")
    if not width:
        raise ValueError(
            f"A share of {rate:g} hides nothing in a window of {window} tokens. Raise the share or the window."
        )
    if span < min_length:
        raise ValueError(
            f"Nothing is hidden of fewer than {min_length} tokens, and a {'window' if window else 'text'} has at most {span}. "
            "Lower `min_length`, or take longer ones."
        )


def _target(token_ids, first, size, width: int, pad: int, opening: int | None) -> dict[str, tf.Tensor]:
    """Returns what the decoder reads and writes of fragments that begin at `first` and have `size` tokens, at most `width`, (B,
    W).

    Args:
        opening: the token that it reads before each; None for that which stands there.
    """
    step = tf.range(width)
    used = _in_a_row(step < size[:, :, None])  # (B, K)
    place = tf.where(used, _in_a_row(first[:, :, None] + step), 1)
    before = tf.gather(token_ids, place - 1, batch_dims=1)
    if opening is not None:
        before = tf.where(tf.tile(step, [size.shape[1]]) == 0, opening, before)
    return {
        "target_position_ids": tf.where(used, place - 1, 0),
        "target_ids": tf.where(used, before, pad),
        "labels": tf.where(used, tf.gather(token_ids, place, batch_dims=1), pad),
        "label_weights": tf.cast(used, tf.float32),
    }


def _in_the_text(n, rate: float, seed) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where the fragment of texts of n tokens (B, 1) begins, counted from 0, and its tokens, both (B, 1)."""
    size = tf.minimum(tf.maximum(tf.cast(tf.floor(tf.cast(n, tf.float64) * rate + 0.5), tf.int32), 1), n)
    where, offset = tf.split(uniform(seed, 2), 2, axis=1)
    anywhere = tf.cast(offset * tf.cast(n - size + 1, tf.float32), tf.int32)
    return tf.where(where < 0.2, 0, tf.where(where < 0.4, n - size, anywhere)), size


def _in_each_window(n, rate: float, seed) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the same for the windows of a text, of which n tokens are real, all (B, W)."""
    size = tf.cast(tf.floor(tf.cast(n, tf.float64) * rate), tf.int32)
    return tf.cast(uniform(seed, n.shape[1]) * tf.cast(n - size + 1, tf.float32), tf.int32), size


def _in_a_row(values) -> tf.Tensor:
    """Returns (B, W, K) -> (B, W K)"""
    return tf.reshape(values, [-1, values.shape[1] * values.shape[2]])


def attend_to(vocabulary: Vocabulary, by_encoder: bool = True, by_decoder: bool = False) -> Op:
    """Returns whether the tokens that are `[MASK]` can be seen. The released programs differ: for translation without pairs
    only the encoder sees them, with pairs neither, for summaries both.

    Reads:  token_ids, padding_mask (B, S).
    Writes: encoder_mask, where the encoder looks, and cross_mask, where the decoder does, bool (B, S).
    """

    def op(features):
        real = features["padding_mask"]
        shown = real & (features["token_ids"] != vocabulary[MASK])
        return {**features, "encoder_mask": real if by_encoder else shown, "cross_mask": real if by_decoder else shown}

    return op


def fragment_length(n: int, rate: float = 0.5) -> int:
    """Returns tokens hidden of `n`, at least one; halves are rounded up."""
    return min(n, max(1, int(n * rate + 0.5)))
