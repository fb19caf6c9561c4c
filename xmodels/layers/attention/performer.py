"""Performer: softmax attention estimated by random features, FAVOR+ (Choromanski et al., 2021, arXiv 2009.14794)."""

import dataclasses
import math
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.kernel_attention import KernelAttention
from xmodels.layers.mixers import Numbers, number

SOFTMAX, RELU = "softmax", "relu"


@dataclasses.dataclass(frozen=True)
class PerformerNumbers(Numbers):
    """The numbers of `Performer`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_features": (0, 65_536), "redraw_every": (0, 1_000_000_000)}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"kernel": (SOFTMAX, RELU)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"kernel", "redraw_every"})
    num_features: int = number(0, "random features of each head; 0 for K log K of heads of width K")
    kernel: str = number("softmax", "what the features estimate. softmax: exp(q k). relu: the kernel of max(w x, 0)")
    redraw_every: int = number(1000, "steps of training after which the features are drawn anew; 0 for never")


class Performer(KernelAttention):
    """Attention whose weights are estimates of exp(q . k / sqrt(K)), with m positive random features, in O(L * m).

    phi(x) = exp(w . x - |x|^2 / 2) / sqrt(m) for rows w of a random matrix, after x was divided by K^(1/4). The rows are orthogonal in
    blocks of K, and as long as those of a Gaussian matrix. Training draws them anew every `redraw_every` steps. They are weights
    without a gradient.

    As in the reference, the w . x of a query lose their largest, which cancels, and those of keys the largest of the text. Where a
    token must not see all others, as in causal attention, that would let later tokens change earlier ones by the size of epsilon.
    There keys lose nothing, but for what is beyond the range of float32: no feature exceeds exp(|w|^2 / 2).

    Args:
        num_features, kernel, redraw_every: as in `PerformerNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = PerformerNumbers
    supports = frozenset({"padding", "causal", "packs"})
    epsilon = 1e-12  # below the product of two of the smallest features

    def __init__(self, *args, num_features: int = 0, kernel: str = SOFTMAX, redraw_every: int = 1000, **kwargs):
        super().__init__(*args, **kwargs)
        self.kernel, self.renew_every = kernel, redraw_every
        rows = num_features or max(1, int(self.head_dim * math.log(self.head_dim)))
        self.rows = self.add_weight(
            shape=(rows, self.head_dim),
            initializer=OrthogonalRows(),
            trainable=False,
            autocast=False,
            dtype="float32",
            name="rows",
        )

    @property
    def num_features(self):
        return self.rows.shape[0]

    def renew(self, seed: int) -> None:
        """Draws the random features anew; equal seeds draw equal ones."""
        self.rows.assign(OrthogonalRows(seed)(self.rows.shape))

    def query_features(self, query):
        if self.kernel == RELU:
            return relu_features(query, self.rows)
        products, halves = softmax_exponents(query, self.rows)
        return positive(products - halves - ops.stop_gradient(ops.max(products, axis=-1, keepdims=True)))

    def key_features(self, key, visible):
        if self.kernel == RELU:
            return relu_features(key, self.rows)
        products, halves = softmax_exponents(key, self.rows)
        if visible.causal or visible.packs is not None:
            largest = ops.max(ops.sum(ops.square(self.rows), axis=1)) / 2
            return positive(products - halves - ops.maximum(largest - LARGEST_EXPONENT, 0.0))
        real = products
        if visible.padding is not None:
            real = ops.where(visible.padding[:, :, None, None], products, -math.inf)
        return positive(products - halves - ops.stop_gradient(ops.max(real, axis=(1, 3), keepdims=True)))


LARGEST_EXPONENT = 60.0  # exp(60) times the longest text is far below the largest float32
EPSILON = 1e-4  # of the reference: no feature is 0


def softmax_exponents(x, rows):
    """Returns w . x and |x|^2 / 2 with x divided by K^(1/4): (B, L, H, K) -> float32 (B, L, H, m) and (B, L, H, 1)."""
    x = ops.cast(x, "float32") * x.shape[-1] ** -0.25
    return ops.matmul(x, ops.transpose(rows)), ops.sum(ops.square(x), axis=-1, keepdims=True) / 2


def positive(exponents):
    """Returns (exp(y) + epsilon) / sqrt(m) of exponents y, (..., m)."""
    return (ops.exp(exponents) + EPSILON) * exponents.shape[-1] ** -0.5


def relu_features(x, rows):
    """Returns max(w . x, 0) + 1e-3 with x divided by K^(1/4): (B, L, H, K) -> float32 (B, L, H, m)."""
    x = ops.cast(x, "float32") * x.shape[-1] ** -0.25
    return ops.relu(ops.matmul(x, ops.transpose(rows))) + 1e-3


class OrthogonalRows(keras.initializers.Initializer):
    """Rows that are orthogonal in blocks of K, each as long as a Gaussian row: (m, K).

    As in Keras, the seed is drawn once, when the initializer is made.

    The columns of Q of a QR factorisation are multiplied by the signs of R's diagonal; Q alone is not distributed uniformly, so the
    estimates would be biased.
    """

    def __init__(self, seed: int | None = None):
        self.seed = keras.initializers.RandomNormal().seed if seed is None else seed

    def __call__(self, shape, dtype=None):
        num_rows, width = shape
        blocks = -(-num_rows // width)
        normal = keras.random.normal((2, blocks, width, width), seed=self.seed, dtype="float32")
        q, r = ops.qr(normal[0])
        q = q * ops.expand_dims(ops.sign(ops.diagonal(r, axis1=1, axis2=2)), 1)
        rows = ops.reshape(ops.swapaxes(q, 1, 2), (-1, width))[:num_rows]
        lengths = ops.norm(ops.reshape(normal[1], (-1, width))[:num_rows], axis=1, keepdims=True)
        return ops.cast(rows * lengths, dtype or "float32")
