"""Attention masks: boolean, True where a query may look, broadcastable to (B, H, L, S)."""

from keras import ops


def padding(padding_mask):
    """(B, S), True on real tokens -> (B, 1, 1, S): every query may look at every real token."""
    shape = ops.shape(padding_mask)
    return ops.reshape(ops.cast(padding_mask, "bool"), (shape[0], 1, 1, shape[1]))


def blocks(pack_ids):
    """(B, S), the number of the example that a token belongs to, 0 on padding -> (B, 1, S, S): each sees its own."""
    same = ops.equal(ops.expand_dims(pack_ids, 2), ops.expand_dims(pack_ids, 1))  # (B, S, S)
    return ops.expand_dims(ops.logical_and(same, ops.expand_dims(pack_ids > 0, 1)), 1)
