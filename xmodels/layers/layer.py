"""The base of layers that hold layers."""

import keras


class Layer(keras.layers.Layer):
    """A layer whose sublayers create their weights when they are first called.

    Without a `build`, Keras traces `call` of such a layer once more before the first call. It does so at every level, so a
    kernel inside a block was traced four times before the network ran.
    """

    def build(self, input_shape):
        """Creates nothing; subclasses with weights of their own override it."""
