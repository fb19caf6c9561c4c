"""Attention by kernels: weights that are products of features of queries and of keys (Katharopoulos et al., 2020, section 3)."""

from keras import ops

from xmodels.layers.attention.visible import Visible
from xmodels.layers.mixers import ProjectedMixer

CHUNK = 128  # tokens whose keys and queries are compared directly; earlier tokens enter as a sum


class KernelAttention(ProjectedMixer):
    """Attention with the weights phi(q) . phi'(k), normalised over the keys of each query.

    Since sum_j (phi(q) phi'(k_j)) v_j = phi(q) sum_j (phi'(k_j) v_j), keys and values are summed once for all queries, in
    float32. If attention is causal, or a row holds several examples, the sums run from chunk to chunk, and only the tokens
    within a chunk are compared directly. The cache for decoding is the sums, (B, H, F, K + 1), whatever the length of the text.
    `dropout` has no effect, since no probabilities are computed. The tokens of an example must be contiguous in their row.

    Subclasses define `query_features` and `key_features`, (B, L, H, K) -> float32 (B, L, H, F), never negative.

    Class attributes:
        epsilon: added to the sum of the weights of a query.
    """

    supports = frozenset({"padding", "causal", "packs"})
    rewinds = False
    epsilon = 1e-6

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, CHUNK)

    @property
    def num_features(self) -> int:
        """F, the width of the features."""
        return self.head_dim

    def query_features(self, query):
        """Returns phi(q)."""
        raise TypeError(f"{type(self).__name__} must define `query_features`.")

    def key_features(self, key, visible):
        """Returns phi'(k) of keys of which `visible` says who sees them; by default phi(k)."""
        return self.query_features(key)

    def mix(self, query, key, value, visible: Visible, training=None):
        between = visible.causal or visible.packs is not None
        if between and query.shape[1] != key.shape[1]:
            raise ValueError(
                f"{type(self).__name__} of a context can be neither causal nor of several examples in a row."
            )
        query_features, key_features = self.query_features(query), self.key_features(key, visible)
        values = with_ones(value)
        for real in (visible.padding, visible.packs):
            if real is not None:
                real = ops.cast(ops.cast(real, "int32") > 0, "float32")
                key_features = key_features * ops.expand_dims(ops.expand_dims(real, 2), 3)
        if not between:
            total = ops.einsum("blhk,blhe->bhke", key_features, values)
            return normalize(ops.einsum("blhk,bhke->blhe", query_features, total), value.dtype, self.epsilon)
        sums = attend_by_chunks(query_features, key_features, values, visible.causal, visible.packs)
        return normalize(sums, value.dtype, self.epsilon)

    def probabilities(self, x, visible=None):
        length, visible = ops.shape(x)[1], self.supported(visible)
        query, key = self.query_features(self.query(x)), self.key_features(self.key(x), visible)
        weights = ops.einsum("blhk,bshk->bhls", query, key)
        attention_mask = visible.dense(length, length)
        weights = weights if attention_mask is None else weights * ops.cast(attention_mask, "float32")
        return weights / (ops.sum(weights, axis=-1, keepdims=True) + self.epsilon)

    def start(self, batch, length: int):
        return ops.zeros((batch, self.num_heads, self.num_features, self.head_dim + 1), "float32")

    def step(self, x, past, position):
        query, (key, value) = self.query(x), self.project(x)
        query_features, key_features = self.query_features(query), self.key_features(key, Visible(causal=True))
        values = with_ones(value)
        sums = ops.einsum("blhk,bhke->blhe", query_features, past)
        sums = sums + attend_by_chunks(query_features, key_features, values, is_causal=True)
        past = past + ops.einsum("blhk,blhe->bhke", key_features, values)
        return self.merge(normalize(sums, value.dtype, self.epsilon)), past


def with_ones(value):
    """Appends a column of ones, whose weighted sum is the sum of the weights: (B, S, H, K) -> float32 (B, S, H, K + 1)."""
    value = ops.cast(value, "float32")
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def normalize(sums, dtype, epsilon: float):
    """Divides weighted sums by the sum of their weights, the last column: (B, L, H, K + 1) -> (B, L, H, K)."""
    return ops.cast(sums[..., :-1] / (sums[..., -1:] + epsilon), dtype)


def attend_by_chunks(query, key, value, is_causal: bool, packs=None):
    """Returns sum_j (q_i . k_j) v_j over the keys j that query i attends to, (B, L, H, E).

    Args:
        query, key: (B, L, H, K).
        value: (B, L, H, E).
        is_causal: whether a query attends to keys up to itself only.
        packs: int (B, L), the number of the example of each token, to attend within examples; or None.
    """
    batch, length, *width = ops.shape(value)
    size = min(CHUNK, length) if isinstance(length, int) else CHUNK
    missing = -length % size
    count = (length + missing) // size

    def cut(x):
        """Splits into n chunks of c tokens: (B, L, ...) -> (B, n, c, ...)."""
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
        if not is_causal:  # the chunks on the right, by the same function
            backwards = (ops.flip(x, axis=(1, 2)) for x in (query, key, value, packs))
            sums = sums + ops.flip(running_within(*backwards), axis=(1, 2))
    return ops.reshape(sums, (batch, count * size, *width))[:, :length]


def running(query, key, value):
    """Returns the sums over all chunks before that of the query: (B, n, c, H, E)."""
    states = ops.einsum("bnshk,bnshe->bnhke", key, value)
    before = ops.cumsum(states, axis=1)[:, :-1]
    before = ops.pad(before, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))  # the first chunk has none
    return ops.einsum("bnqhk,bnhke->bnqhe", query, before)


def running_within(query, key, value, packs):
    """Returns `running` over the tokens of the query's own example only; `packs` is int (B, n, c).

    The only example that continues from earlier chunks into a chunk is the last one of the previous chunk, and it is also the
    last one of every chunk since the one where it began.
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
    """Returns bool (B, n, c) -> float32 (B, n, c, 1, 1)"""
    return ops.expand_dims(ops.expand_dims(ops.cast(chosen, "float32"), 3), 4)
