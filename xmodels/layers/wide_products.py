"""Gradients of kernels that read their wide operand the other way, for processors with AVX2 alone.

Such a gradient is the product of (N, D) and (N, F), both read down their columns. Where a row of one of them has a multiple of 4,096
bytes and the other one is narrow, oneDNN's product for AVX2 reads them in place, and all rows lie in the same few lines of the cache:
it takes twice as long as with the wide one transposed before (docs/decisions/wide-products.md).
"""

import contextlib

import keras
from keras import ops

FEWEST_ROWS = 512
COLUMNS = 1024  # of float32, 4,096 bytes
IN_PLACE = 0.0038  # 1 / D + 1 / F from which oneDNN reads the operands in place (`nocopy_checker_avx2`)
PART = 8  # rows; a transposition of two axes would be taken into the product by TensorFlow

_ACTIVE: list[bool] = []


@contextlib.contextmanager
def transposed_first(wanted: bool = True):
    """Lets layers that are called inside the context compute such gradients the other way."""
    _ACTIVE.append(wanted)
    try:
        yield
    finally:
        _ACTIVE.pop()


class Dense(keras.layers.Dense):
    """That of Keras, with another way to the same gradient where that is asked for and pays."""

    def call(self, inputs, training=None):
        if not _pays(inputs, self.kernel.shape):
            return super().call(inputs, training)
        found = _product(inputs, ops.cast(self.kernel, inputs.dtype))
        if self.bias is not None:
            found = ops.add(found, self.bias)
        return found if self.activation is None else self.activation(found)


def _pays(inputs, kernel_shape: tuple[int, int]) -> bool:
    narrow, wide = sorted(kernel_shape)
    return (
        bool(_ACTIVE and _ACTIVE[-1])
        and len(inputs.shape) == 2
        and keras.backend.standardize_dtype(inputs.dtype) == "float32"
        and (inputs.shape[0] or 0) >= FEWEST_ROWS
        and inputs.shape[0] % PART == 0
        and wide % COLUMNS == 0
        and 1 / narrow + 1 / wide >= IN_PLACE
    )


@ops.custom_gradient
def _product(rows, kernel):
    """Returns the product of (N, D) and (D, F)."""

    def gradient(*args, upstream=None):
        upstream = args[-1] if upstream is None else upstream
        if kernel.shape[0] >= kernel.shape[1]:
            of_kernel = ops.matmul(_transposed(rows), upstream)
        else:
            of_kernel = ops.transpose(ops.matmul(_transposed(upstream), rows))
        return ops.matmul(upstream, ops.transpose(kernel)), of_kernel

    return ops.matmul(rows, kernel), gradient


def _transposed(x):
    count, width = x.shape
    parts = ops.reshape(x, (count // PART, PART, width))
    return ops.reshape(ops.transpose(parts, (2, 0, 1)), (width, count))
