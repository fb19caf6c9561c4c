"""A convolution over the tokens of a text that takes nothing from other texts in the row."""

from keras import ops

from xmodels.layers.layer import Layer


class TokenConvolution(Layer):
    """y_i = bias + the sum of kernel_w x_j over the tokens j = i + w - (W - 1) / 2 of the same example.

    Args:
        width: W, odd.
        hidden_dim: D.
        initializer: of the kernel.

    Call arguments:
        x: (B, L, D).
        packs: int or bool (B, L), the number of the example of each token, 0 or False on padding.

    Returns:
        (B, L, D)
    """

    def __init__(self, width: int, hidden_dim: int, initializer, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.kernel = self.add_weight(shape=(width, hidden_dim, hidden_dim), initializer=initializer, name="kernel")
        self.bias = self.add_weight(shape=(hidden_dim,), initializer="zeros", name="bias")
        self.built = True

    def call(self, x, packs):
        packs, side = ops.cast(packs, "int32"), self.width // 2
        length = ops.shape(x)[1]
        around = ops.pad(x, ((0, 0), (side, side), (0, 0)))
        packs_around = ops.pad(packs, ((0, 0), (side, side)))
        parts = []
        for place in range(self.width):
            same = ops.equal(packs, packs_around[:, place : place + length])  # (B, L)
            parts.append(around[:, place : place + length] * ops.expand_dims(ops.cast(same, x.dtype), -1))
        kernel = ops.cast(ops.reshape(self.kernel, (-1, self.kernel.shape[-1])), x.dtype)
        return ops.matmul(ops.concatenate(parts, axis=-1), kernel) + ops.cast(self.bias, x.dtype)
