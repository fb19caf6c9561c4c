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


def causal(length: int):
    """(1, 1, L, L): every query may look at itself and at what came before."""
    place = ops.arange(length, dtype="int32")
    return ops.reshape(ops.expand_dims(place, 0) <= ops.expand_dims(place, 1), (1, 1, length, length))


def upto(positions, length: int):
    """Positions (L,) of queries in a text of S tokens -> (1, 1, L, S): each may look as far as itself."""
    place = ops.arange(length, dtype="int32")
    seen = ops.expand_dims(place, 0) <= ops.expand_dims(positions, 1)  # (L, S)
    return ops.expand_dims(ops.expand_dims(seen, 0), 0)
