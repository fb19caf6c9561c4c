"""Reshapes examples of C sequences, (B, C, L), to rows of a network, (B C, L), and back."""

from keras import ops

FEATURES = ("token_ids", "segment_ids", "padding_mask", "character_ids")


def rows(batch):
    """Returns the inputs of the network with each sequence as a row, (B C, L). Examples of one sequence, (B, L), are unchanged."""
    shape = batch["token_ids"].shape
    read = {name: batch[name] for name in FEATURES if name in batch}
    return read if len(shape) == 2 else {n: ops.reshape(x, (-1, *ops.shape(x)[2:])) for n, x in read.items()}


def split_sequences(x, count: int):
    """Splits rows into examples of `count` sequences: (B C, ...) -> (B, C, ...)."""
    return ops.reshape(x, (-1, count, *x.shape[1:]))


def row_weights(batch):
    """Returns the weight of each row, float32 (B C,): that of its example; 0 for missing choices."""
    weights = ops.cast(batch["example_weights"], "float32")  # (B,)
    if len(batch["token_ids"].shape) == 2:
        return weights
    count = batch["token_ids"].shape[1]
    each = ops.cast(batch.get("choice_weights", ops.ones((1, count))), "float32")  # (B or 1, C)
    return ops.reshape(ops.expand_dims(weights, 1) * each, (-1,))
