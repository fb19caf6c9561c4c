"""TensorCoder: attention between the dimensions of heads instead of tokens (Zhang et al., 2020, arXiv 2008.01547)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.visible import Visible
from xmodels.layers.mixers import Numbers, ProjectedMixer, number

SQRT_N, SQRT_D, N = "sqrt_n", "sqrt_d", "n"


@dataclasses.dataclass(frozen=True)
class TensorCoderNumbers(Numbers):
    """The numbers of `TensorCoder`."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"scale": (SQRT_N, SQRT_D, N)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"scale", "chunk_size"})
    scale: str = number(
        "sqrt_n",
        "by what sums over N tokens are divided. sqrt_n: their root. sqrt_d: the root of a head's width. n: their number",
    )
    chunk_size: int = number(32, "tokens whose matrices are kept at once where attention is causal")


class TensorCoder(ProjectedMixer):
    """Mixes the features of each token by a matrix of the whole text, in O(L K) per head and feature instead of O(L^2).

    With C = QT K / sqrt(N), a matrix (K, K) of sums over the N real tokens, and A = softmax of its rows, a token v becomes A v.
    Causal, token t uses the sums over the tokens up to itself, divided by sqrt(t). These are prefix sums from chunk to chunk; the
    gradient computes the matrices of a chunk again. The cache for decoding is C, (B, H, K, K), and the number of tokens.

    The paper's text beyond its abstract and its code were not at hand, so this form is ours (docs/tensorcoder.md). The order of tokens
    changes nothing but what positions in `x` say. `dropout` has no effect.

    Args:
        scale, chunk_size: as in `TensorCoderNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = TensorCoderNumbers
    supports = frozenset({"padding", "causal"})
    rewinds = False
    has_probabilities = False

    def __init__(self, *args, scale: str = SQRT_N, chunk_size: int = 32, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale, self.chunk_size = scale, chunk_size

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, config.hidden_dim // config.num_heads)

    def call(self, x, visible=None, context=None, training=None):
        """Works as in `Mixer`; `context` is the text that begins with the tokens of `x`."""
        text, visible = x if context is None else context, self.supported(visible)
        query, key, value = self.query(text), self.key(text), self.value(x)
        query, key, counts = *real_only(query, key, visible), counts_of(text, visible)
        if visible.causal:
            first = ops.shape(x)[1]
            return self.merge(self.mix_by_chunks(query[:, :first], key[:, :first], value, counts[:, :first])[0])
        sums = ops.einsum("blhx,blhy->bhxy", query, key)
        matrices = self.matrices(sums, ops.max(counts, axis=1, initial=0.0)[:, None, None, None])
        return self.merge(ops.cast(ops.einsum("bhxy,blhy->blhx", matrices, ops.cast(value, "float32")), value.dtype))

    def matrices(self, sums, counts):
        """Returns A of sums QT K over `counts` tokens: (..., K, K) -> float32 (..., K, K), whose rows sum to one."""
        counts = ops.maximum(counts, 1.0)
        divisors = {SQRT_N: ops.sqrt(counts), SQRT_D: self.head_dim**0.5, N: counts}
        rows = ops.reshape(sums / divisors[self.scale], (-1, self.head_dim))  # TensorFlow's softmax takes few axes
        return ops.reshape(ops.softmax(rows, axis=-1), ops.shape(sums))

    def mix_by_chunks(self, query, key, value, counts, before=None):
        """Returns A_t v_t of each token, with the sums up to it, and the sums over all tokens.

        Args:
            query, key: float32 (B, L, H, K), zero at padding.
            value: (B, L, H, K).
            counts: float32 (B, L), the number of real tokens up to each.
            before: float32 (B, H, K, K), the sums over earlier tokens; None for none.

        Returns:
            (B, L, H, K) and (B, H, K, K).
        """
        (batch, length), size, dtype = ops.shape(query)[:2], self.chunk_size, value.dtype
        if before is None:
            before = ops.zeros((batch, self.num_heads, self.head_dim, self.head_dim), "float32")
        size = min(size, length) if isinstance(length, int) else size
        missing = -length % size

        def cut(x):
            """Splits into n chunks of c tokens: (B, L, ...) -> (n, B, c, ...)."""
            x = ops.pad(x, [(0, 0), (0, missing), *([(0, 0)] * (len(x.shape) - 2))])
            return ops.swapaxes(ops.reshape(x, (batch, -1, size, *x.shape[2:])), 0, 1)

        @keras.remat
        def chunk(sums, query, key, value, counts):
            sums = ops.expand_dims(sums, 1) + ops.cumsum(ops.einsum("blhx,blhy->blhxy", query, key), axis=1)
            return ops.einsum("blhxy,blhy->blhx", self.matrices(sums, counts[:, :, None, None, None]), value)

        query, key, value, counts = (cut(x) for x in (query, key, ops.cast(value, "float32"), counts))
        sums = ops.expand_dims(before, 0) + ops.cumsum(ops.einsum("nblhx,nblhy->nbhxy", query, key), axis=0)
        entering = ops.concatenate([ops.expand_dims(before, 0), sums[:-1]], axis=0)
        mixed = ops.map(lambda parts: chunk(*parts), (entering, query, key, value, counts))
        mixed = ops.reshape(ops.swapaxes(mixed, 0, 1), (batch, -1, self.num_heads, self.head_dim))[:, :length]
        return ops.cast(mixed, dtype), sums[-1]

    def explicit(self, x, visible=None):
        visible, length = self.supported(visible), x.shape[1]
        query, (key, value) = self.query(x), self.project(x)
        query, key = real_only(query, key, visible)
        products = ops.einsum("blhx,blhy->blhxy", query, key)
        seen = ops.tril(ops.ones((length, length))) if visible.causal else ops.ones((length, length))
        real = ops.ones(ops.shape(x)[:2]) if visible.padding is None else ops.cast(visible.padding, "float32")
        sums = ops.einsum("ls,bshxy->blhxy", seen, products)
        counts = ops.einsum("ls,bs->bl", seen, real)
        matrices = self.matrices(sums, counts[:, :, None, None, None])
        return self.merge(ops.cast(ops.einsum("blhxy,blhy->blhx", matrices, ops.cast(value, "float32")), value.dtype))

    def start(self, batch, length: int):
        return ops.zeros((batch, self.num_heads, self.head_dim, self.head_dim), "float32")

    def step(self, x, past, position):
        query, (key, value) = self.query(x), self.project(x)
        query, key = real_only(query, key, Visible())
        counts = ops.cast(position, "float32") + counts_of(x, Visible())
        mixed, past = self.mix_by_chunks(query, key, value, counts, before=past)
        return self.merge(mixed), past


def real_only(query, key, visible: Visible):
    """Returns float32 queries and keys that are zero at padding, (B, L, H, K) each."""
    query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    if visible.padding is None:
        return query, key
    real = ops.cast(visible.padding, "float32")[:, :, None, None]
    return query * real, key * real


def counts_of(x, visible: Visible):
    """Returns the number of real tokens up to each, float32 (B, L)."""
    real = ops.ones(ops.shape(x)[:2], "float32") if visible.padding is None else ops.cast(visible.padding, "float32")
    return ops.cumsum(real, axis=1)
