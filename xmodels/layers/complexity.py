"""Costs of layers of the same width (Vaswani et al., 2017, section 4 and table 1), counting all matrix products.

n tokens, width d, kernel k, window r. A multiplication and an addition are two FLOPs; biases, softmax and gates are not counted.

| layer | FLOPs | parameters | steps | longest path |
|---|---|---|---|---|
| self_attention | 2 (4 n d^2 + 2 n^2 d) | 4 d^2 + 4 d | 1 | 1 |
| local_attention | 2 (4 n d^2 + 2 r n d) | 4 d^2 + 4 d | 1 | n / r |
| lstm | 2 (8 n d^2) | 8 d^2 + 4 d | n | n |
| gru | 2 (6 n d^2) | 6 d^2 + 3 d | n | n |
| convolution | 2 (k n d^2) | k d^2 + d | 1 | n / k, dilated log_k n |
| gated_convolution | 2 (2 k n d^2) | 2 k d^2 + 2 d | 1 | as convolution |
| separable_convolution | 2 (k n d + n d^2) | k d + d^2 + d | 1 | as convolution |
"""

import dataclasses
import math
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one layer for one text.

    Attributes:
        flops: of a forward pass.
        parameters: including biases.
        activation_bytes: bytes kept for the backward pass: inputs of products, gates, and attention probabilities.
        sequential_steps: products that depend on one another, so that they cannot run in parallel.
        longest_path: layers, or steps of a layer, between the two positions of a text that are farthest apart.
    """

    flops: int
    parameters: int
    activation_bytes: int
    sequential_steps: int
    longest_path: int


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes that `cost_model` takes; see its arguments."""

    n: int
    d: int
    kernel_size: int
    window: int
    num_heads: int
    dilated: bool

    @property
    def path_of_convolutions(self) -> int:
        if self.n == 1:
            return 1
        if self.dilated:
            return math.ceil(round(math.log(self.n, self.kernel_size), 9))
        return math.ceil(self.n / self.kernel_size)


def _attention(s: Sizes, keys: int, path: int) -> tuple:
    products = 4 * s.n * s.d**2 + 2 * s.n * keys * s.d
    kept = 5 * s.n * s.d + s.num_heads * s.n * keys  # input, query, key, value, output of the heads; probabilities
    return products, 4 * s.d**2 + 4 * s.d, kept, 1, path


def _recurrent(s: Sizes, gates: int, kept: int) -> tuple:
    return 2 * gates * s.n * s.d**2, 2 * gates * s.d**2 + gates * s.d, kept * s.n * s.d, s.n, s.n


def _convolution(s: Sizes, widths: int, kept: int) -> tuple:
    weights = widths * s.kernel_size * s.d**2
    return s.n * weights, weights + widths * s.d, kept * s.n * s.d, 1, s.path_of_convolutions


def _separable(s: Sizes) -> tuple:
    weights = s.kernel_size * s.d + s.d**2
    return s.n * weights, weights + s.d, 2 * s.n * s.d, 1, s.path_of_convolutions


# Numbers kept for each token and dimension: the input, and for an LSTM four gates, c, tanh(c) and h, for a GRU three gates, r h (the
# recurrent input of the candidate) and h, for a gated convolution both halves.
LAYERS: dict[str, Callable[[Sizes], tuple]] = {
    "self_attention": lambda s: _attention(s, s.n, 1),
    "local_attention": lambda s: _attention(s, min(s.window, s.n), math.ceil(s.n / s.window)),
    "lstm": lambda s: _recurrent(s, 4, 8),
    "gru": lambda s: _recurrent(s, 3, 6),
    "convolution": lambda s: _convolution(s, 1, 1),
    "gated_convolution": lambda s: _convolution(s, 2, 3),
    "separable_convolution": _separable,
}


def cost_model(
    layer: str, n: int, d: int, kernel_size: int = 3, window: int = 64, num_heads: int = 1, dilated: bool = False,
    bytes_per_number: int = 4,
) -> Cost:  # fmt: skip
    """Returns the cost of a layer for a text of n tokens of width d.

    Args:
        layer: one of `LAYERS`.
        kernel_size: of convolutions.
        window: of local attention, the tokens that a token attends to.
        num_heads: of attention; only `activation_bytes` depends on it.
        dilated: whether stacked convolutions have dilations 1, k, k^2, ...
        bytes_per_number: of the kept activations; 4 for float32.

    Raises:
        ValueError: the layer is unknown, a size is below 1, or the kernel of dilated convolutions is below 2.
    """
    if layer not in LAYERS:
        raise ValueError(f"Unknown `layer`. Received: {layer!r}. Known: {', '.join(LAYERS)}.")
    sizes = Sizes(n, d, kernel_size, window, num_heads, dilated)
    if min(n, d, kernel_size, window, num_heads) < 1 or (dilated and kernel_size < 2):
        raise ValueError(f"Sizes must be 1 or more, and the kernel of dilated convolutions 2. Received: {sizes}.")
    products, parameters, kept, steps, path = LAYERS[layer](sizes)
    return Cost(2 * products, parameters, kept * bytes_per_number, steps, path)
