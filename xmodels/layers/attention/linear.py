"""Linear attention: Transformers are RNNs (Katharopoulos et al., 2020, arXiv 2006.16236)."""

from keras import ops

from xmodels.layers.mixers import Mixer

EPSILON = 1e-6
CHUNK = 128  # tokens that are compared with each other; what lies before them is a sum


class LinearAttention(Mixer):
    """Attention whose weights are products of features, phi(q) phi(k) with phi(x) = elu(x) + 1, each row divided by its sum.

    So sum_j (phi(q) phi(k_j)) v_j = phi(q) sum_j (phi(k_j) v_j): keys and values are summed once for all queries, in float32.
    Where it is causal, or a row holds several examples, sums run from chunk to chunk, and tokens of a chunk are compared with
    each other. Decoding keeps the sums, (B, H, K, K + 1), however long the text grows. There are no probabilities to drop,
    so `dropout` has no effect. The tokens of an example must stand together in their row.
    """

    honours = frozenset({"padding", "causal", "packs"})
    rewinds = False

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, CHUNK)

    def mix(self, query, key, value, visible, training=None):
        between = visible.causal or visible.packs is not None
        if between and query.shape[1] != key.shape[1]:
            raise ValueError("Linear attention to a context can be neither causal nor of several examples in a row.")
        query_features, key_features, values = features(query), features(key), with_ones(value)
        for real in (visible.padding, visible.packs):
            if real is not None:
                real = ops.cast(ops.cast(real, "int32") > 0, "float32")
                key_features = key_features * ops.expand_dims(ops.expand_dims(real, 2), 3)
        if not between:
            total = ops.einsum("blhk,blhe->bhke", key_features, values)
            return divided(ops.einsum("blhk,bhke->blhe", query_features, total), value.dtype)
        sums = chunked(query_features, key_features, values, visible.causal, visible.packs)
        return divided(sums, value.dtype)

    def probabilities(self, x, visible=None):
        length = ops.shape(x)[1]
        weights = ops.einsum("blhk,bshk->bhls", features(self.query(x)), features(self.key(x)))
        attention_mask = self.honoured(visible).dense(length, length)
        weights = weights if attention_mask is None else weights * ops.cast(attention_mask, "float32")
        return weights / (ops.sum(weights, axis=-1, keepdims=True) + EPSILON)

    def start(self, batch, length: int):
        return ops.zeros((batch, self.num_heads, self.head_dim, self.head_dim + 1), "float32")

    def step(self, x, past, position):
        query, (key, value) = self.query(x), self.project(x)
        query_features, key_features, values = features(query), features(key), with_ones(value)
        sums = ops.einsum("blhk,bhke->blhe", query_features, past)
        sums = sums + chunked(query_features, key_features, values, is_causal=True)
        past = past + ops.einsum("blhk,blhe->bhke", key_features, values)
        return self.merge(divided(sums, value.dtype)), past


def features(x):
    """phi: all positive, float32."""
    return ops.elu(ops.cast(x, "float32")) + 1.0


def with_ones(value):
    """(B, S, H, K) -> float32 (B, S, H, K + 1): sums of the last column are those of the weights."""
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def divided(sums, dtype):
    """(B, L, H, K + 1) -> (B, L, H, K): weighted sums by the sum of their weights."""
    return ops.cast(sums[..., :-1] / (sums[..., -1:] + EPSILON), dtype)


def chunked(query, key, value, is_causal: bool, packs=None):
    """sum_j (q_i k_j) v_j over the j that i sees: (B, L, H, K) twice and (B, L, H, E) -> (B, L, H, E)."""
    batch, length, *width = ops.shape(value)
    size = min(CHUNK, length) if isinstance(length, int) else CHUNK
    missing = -length % size
    count = (length + missing) // size

    def cut(x):
        """(B, L, ...) -> (B, n, c, ...)"""
        x = ops.pad(x, [(0, 0), (0, missing), *([(0, 0)] * (len(x.shape) - 2))])
        return ops.reshape(x, (batch, count, size, *x.shape[2:]))

    query, key, value = cut(query), cut(key), cut(value)
    weights = ops.einsum("bnqhk,bnshk->bnhqs", query, key)  # (B, n, H, c, c)
    if is_causal:
        place = ops.arange(size, dtype="int32")
        weights = weights * ops.cast(ops.expand_dims(place, 0) <= ops.expand_dims(place, 1), "float32")
    if packs is None:
        sums = ops.einsum("bnhqs,bnshe->bnqhe", weights, value) + running(query, key, value)
    else:
        packs = cut(ops.cast(packs, "int32"))  # (B, n, c)
        same = ops.equal(ops.expand_dims(packs, 3), ops.expand_dims(packs, 2))  # (B, n, c, c)
        weights = weights * ops.cast(ops.expand_dims(same, 2), "float32")
        sums = ops.einsum("bnhqs,bnshe->bnqhe", weights, value) + running_within(query, key, value, packs)
        if not is_causal:  # the same from the right
            backwards = (ops.flip(x, axis=(1, 2)) for x in (query, key, value, packs))
            sums = sums + ops.flip(running_within(*backwards), axis=(1, 2))
    return ops.reshape(sums, (batch, count * size, *width))[:, :length]


def running(query, key, value):
    """What the queries of each chunk get from all chunks before it: (B, n, c, H, E)."""
    states = ops.einsum("bnshk,bnshe->bnhke", key, value)
    before = ops.cumsum(states, axis=1)[:, :-1]
    before = ops.pad(before, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))  # the first chunk has none
    return ops.einsum("bnqhk,bnhke->bnqhe", query, before)


def running_within(query, key, value, packs):
    """The same, but from tokens of the query's own example: of packs (B, n, c).

    An example that reaches into a chunk is the one at the end of the chunk before, and at that of all since it began.
    """
    last = packs[:, :, -1]  # (B, n)
    entering = ops.pad(last[:, :-1], ((0, 0), (1, 0)))  # (B, n), 0 at the first chunk
    chosen = ops.equal(packs, ops.expand_dims(last, 2))  # (B, n, c)
    states = ops.einsum("bnshk,bnshe->bnhke", key * spread(chosen), value)
    place = ops.arange(ops.shape(packs)[1], dtype="int32")
    earlier = ops.expand_dims(place, 0) < ops.expand_dims(place, 1)  # (n, n)
    same = ops.equal(ops.expand_dims(entering, 2), ops.expand_dims(last, 1))  # (B, n, n)
    carried = ops.cast(ops.logical_and(earlier, same), "float32")
    before = ops.einsum("bnm,bmhke->bnhke", carried, states)
    reached = ops.equal(packs, ops.expand_dims(entering, 2))  # (B, n, c)
    return ops.einsum("bnqhk,bnhke->bnqhe", query * spread(reached), before)


def spread(chosen):
    """bool (B, n, c) -> float32 (B, n, c, 1, 1)"""
    return ops.expand_dims(ops.expand_dims(ops.cast(chosen, "float32"), 3), 4)
