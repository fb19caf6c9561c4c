"""Attention with a learned bias for each bucket of relative positions, as T5 has it (Raffel et al., 2019, section 2.1)."""

import math

import keras
import numpy as np
from keras import ops

from xmodels.layers.attention.core import attend, attention_scores, split_heads
from xmodels.layers.cached_attention import CachedAttention
from xmodels.layers.initialization import Initialization


def buckets_of(distances, num_buckets: int, max_distance: int) -> np.ndarray:
    """Returns the bucket of each distance, int32 (N,): half of the buckets hold one distance each, the others ever wider ranges.

    Computed in float32 as in the original code, since rounding decides at the bounds of the buckets.
    """
    distances, exact = np.asarray(distances, "int64"), num_buckets // 2
    share = np.log(np.maximum(distances, 1).astype("float32") / np.float32(exact)) / np.float32(
        math.log(max_distance / exact)
    )
    wider = exact + (share * np.float32(num_buckets - exact)).astype("int64")
    return np.where(distances < exact, distances, np.minimum(wider, num_buckets - 1)).astype("int32")


class RelativeBuckets(keras.layers.Layer):
    """A learned bias for each head and bucket of the distance from query to key.

    Args:
        num_heads: H.
        num_buckets: rows of the table.
        max_distance: longer distances share the last bucket.
        bidirectional: whether half of the buckets are for keys after the query. Otherwise these keys share the bucket of
            distance 0, and must be masked out.
        initializer: of the table.

    Call arguments:
        queries: int (L,), the positions of the queries.
        keys: int (S,), the positions of the keys.

    Returns:
        (1, H, L, S)
    """

    def __init__(self, num_heads: int, num_buckets: int, max_distance: int, bidirectional: bool, initializer, **kwargs):
        super().__init__(**kwargs)
        self.bidirectional, self.max_distance = bidirectional, max_distance
        self.num_buckets = num_buckets // 2 if bidirectional else num_buckets  # of one direction
        self.table = self.add_weight(shape=(num_buckets, num_heads), initializer=initializer, name="table")
        self.built = True

    def call(self, queries, keys):
        behind = ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)  # (L, S)
        return ops.expand_dims(ops.transpose(ops.take(self.table, self.buckets(behind), axis=0), (2, 0, 1)), 0)

    def buckets(self, behind):
        """Returns the bucket of each distance key - query, int of the same shape; `behind` is positive for keys after the query."""
        distance = ops.abs(behind) if self.bidirectional else ops.maximum(-behind, 0)
        known = buckets_of(np.arange(self.max_distance + 1), self.num_buckets, self.max_distance)
        bucket = ops.take(ops.convert_to_tensor(known), ops.minimum(distance, self.max_distance), axis=0)
        return bucket + ops.where(behind > 0, self.num_buckets, 0) if self.bidirectional else bucket


class BiasedAttention(CachedAttention):
    """Softmax attention with a learned bias by relative position. Arguments as in `ProjectedMixer`.

    Args:
        buckets: a `RelativeBuckets`, which several layers share; None for no bias, as in attention to a source.
    """

    supports = frozenset({"padding", "causal", "packs", "prefix", "window", "global_ids", "order"})

    def __init__(self, *args, buckets: RelativeBuckets | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.buckets = buckets

    def bias(self, queries, keys):
        return None if self.buckets is None else self.buckets(queries, keys=keys)

    def mix(self, query, key, value, visible, training=None):
        queries, keys = (ops.arange(ops.shape(each)[1], dtype="int32") for each in (query, key))
        return attend(query, key, value, visible, self.bias(queries, keys), self.scale, self.dropout, training)

    def scores(self, x, visible=None):
        length = ops.shape(x)[1]
        places = ops.arange(length, dtype="int32")
        attention_mask, bias = self.supported(visible).dense(length, length), self.bias(places, places)
        return attention_scores(self.query(x), self.key(x), attention_mask, bias, self.scale)


class BucketAttention(BiasedAttention):
    """The same without a scale, and projections without biases.

    Args:
        query_initialization: of the kernel of the queries, whose initial values are small in place of the scale.
        buckets: as in `BiasedAttention`.
    """

    scale = 1.0

    def __init__(
        self, num_heads: int, hidden_dim: int, head_dim: int, dropout: float, initialization: Initialization,
        query_initialization: Initialization, buckets: RelativeBuckets | None = None, **kwargs,
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, False, head_dim, buckets=buckets, **kwargs)
        self.query = split_heads(num_heads, head_dim, "query", query_initialization, False)
