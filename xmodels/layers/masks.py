"""Attention masks: boolean, True where a query may look, broadcastable to (B, H, L, S)."""

from keras import ops


def padding(padding_mask):
    """(B, S), True on real tokens -> (B, 1, 1, S): every query may look at every real token."""
    shape = ops.shape(padding_mask)
    return ops.reshape(ops.cast(padding_mask, "bool"), (shape[0], 1, 1, shape[1]))
