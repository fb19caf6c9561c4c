"""The base class of layers that consist of other layers."""

import keras


class Layer(keras.layers.Layer):
    """A layer whose sublayers create their weights when they are first called.

    Without a `build`, Keras traces `call` of such a layer once more before the first call. It would do so at every level, and
    trace a kernel inside a block four times before the network runs.
    """

    def build(self, input_shape):
        """Creates nothing; subclasses with weights of their own override it."""
