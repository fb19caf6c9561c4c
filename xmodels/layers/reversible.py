"""Reversible residual blocks, whose inputs follow from their outputs (Gomez et al., 2017; Kitaev et al., 2020, section 3).

A stack of them keeps for the gradient what its last block returns, and of each layer the choices that it made, such as the buckets of
tokens. The backward pass goes from block to block: it computes the inputs of a block from its outputs, and the block again.
"""

import contextlib

import keras
from keras import ops

from xmodels.layers.choices import recorded, repeated
from xmodels.layers.dropout import Dropout, active_seed, dropout_seed
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.pullback import pullback


class ReversibleBlock(Layer):
    """y1 = x1 + mixer(norm(x2)), y2 = x2 + feedforward(norm(y1)) (equation 9). The stack needs a final norm.

    Both streams are float32 under every policy, or each block would lose bits of what its inputs are computed from.

    Args:
        mixer, feedforward, dropout, epsilon: as in `blocks.PreNormBlock`.
        chunk_size: the feed-forward layer is computed for so many tokens at once (section 3); 0 for all.

    Call arguments:
        first, second: (B, L, D) each.
        visible: passed to the mixer.

    Returns:
        Both streams, (B, L, D) each.
    """

    def __init__(self, mixer, feedforward, dropout: float, epsilon: float, chunk_size: int = 0, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.mixer, self.feedforward, self.chunk_size = mixer, feedforward, chunk_size
        self.mixer_norm = LayerNorm(epsilon=epsilon, name="mixer_norm")
        self.feedforward_norm = LayerNorm(epsilon=epsilon, name="feedforward_norm")
        self.dropout = Dropout(dropout)

    def call(self, first, second, visible=None, training=None):
        first = first + self.mix(second, visible, training)
        return first, second + join_tokens([self.change(x, training) for x in split_tokens(first, self.chunk_size)])

    def mix(self, x, visible=None, training=None):
        """Returns what is added to the first stream: float32 (B, L, D)."""
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        return ops.cast(self.dropout(mixed, training=training), "float32")

    def change(self, x, training=None):
        """Returns what is added to the second stream, for some of the tokens: float32 (B, l, D)."""
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return ops.cast(self.dropout(changed, training=training), "float32")

    def attention_map(self, second, visible=None):
        """Returns the attention probabilities of the mixer, float32 (B, H, L, L), for pictures."""
        return self.mixer.probabilities(self.mixer_norm(second), visible)

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`; as the mixer's `start`."""
        return self.mixer.start(batch, length)

    def step(self, first, second, past, place):
        """Returns both streams after one step of decoding, and `past`; arguments as those of the mixer's `step`."""
        mixed, past = self.mixer.step(self.mixer_norm(second), past, place)
        first = first + ops.cast(mixed, "float32")
        return first, second + self.change(first), past


def split_tokens(x, size: int) -> list:
    """Splits (B, L, ...) into pieces of `size` tokens, of which the last may be shorter; 0, or an unknown L, gives one piece."""
    length = x.shape[1]
    if not size or length is None or length <= size:
        return [x]
    return [x[:, first : first + size] for first in range(0, length, size)]


def join_tokens(pieces: list):
    """Returns the inverse of `split_tokens`."""
    return ops.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]


class Branch:
    """A part of a block that is added to a stream, as a function of its input and its weights.

    Args:
        layers: hold the weights.
        function: (B, l, D) -> (B, l, D).
    """

    def __init__(self, layers, function):
        self.variables = [variable for layer in layers for variable in layer.variables]
        self.function, self.first, self.last = function, 0, 0
        self.choices: list = []

    def run(self, x, weights, seed):
        """Returns the value, and remembers with which random numbers and choices it is computed."""
        self.first = seed.draws
        with recorded() as self.choices:
            value = self._call(x, weights, seed)
        seed.draws = self.last
        return value

    def again(self, x, weights, seed):
        """Returns the value for an `x` that differs by rounding only, and the `pullback` to x and the weights."""

        def function(x, *weights):
            with repeated(self.choices):
                return self._call(x, weights, seed)

        return pullback(function, [x, *weights])

    def _call(self, x, weights, seed):
        places = list(zip(self.variables, weights, strict=True))
        with keras.StatelessScope(places), dropout_seed(seed.base, self.first):
            value = self.function(x)
            self.last = active_seed().draws
        return value


class Walk:
    """One block on its way forward, which can be walked back.

    Args:
        block: a built `ReversibleBlock`.
        visible: passed to the mixer.
    """

    def __init__(self, block: ReversibleBlock, visible=None):
        self.size = block.chunk_size
        self.mixing = Branch((block.mixer_norm, block.mixer), lambda x: block.mix(x, visible, True))
        self.change = lambda: Branch((block.feedforward_norm, block.feedforward), lambda x: block.change(x, True))
        self.changing: list[Branch] = []  # of each piece of the tokens
        self.weights = [ops.copy(each) for each in (*self.mixing.variables, *self.change().variables)]

    def forward(self, first, second, weights, seed):
        """Returns the outputs of the block."""
        of_mixing, of_change = self._split(weights)
        first = first + self.mixing.run(second, of_mixing, seed)
        pieces = split_tokens(first, self.size)
        self.changing = [self.change() for _ in pieces]
        changed = [branch.run(x, of_change, seed) for branch, x in zip(self.changing, pieces, strict=True)]
        return first, second + join_tokens(changed)

    def backward(self, first, second, slopes, weights, seed):
        """Returns the inputs from the outputs, their gradients from those of the outputs, and those of the weights."""
        of_mixing, of_change = self._split(weights)
        of_first, of_second = slopes
        pieces = [split_tokens(each, self.size) for each in (first, of_second)]
        changed, added, sums = [], [], None
        for branch, x, slope in zip(self.changing, *pieces, strict=True):
            value, pull = branch.again(x, of_change, seed)
            of_x, *found = pull(slope)
            changed.append(value)
            added.append(of_x)
            sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
        second = second - join_tokens(changed)
        of_first = of_first + join_tokens(added)
        value, pull = self.mixing.again(second, of_mixing, seed)
        of_x, *found = pull(of_first)
        return first - value, second, (of_first, of_second + of_x), [*found, *(sums or [])]

    def _split(self, weights):
        count = len(self.mixing.variables)
        return weights[:count], weights[count:]


def run_reversibly(blocks, first, second, visible=None):
    """Returns both streams after all blocks, as in training, keeping neither their inputs nor their activations for the gradient.

    The gradients are those of calling the blocks one after another, but for the rounding of the inputs that are computed back.
    Dropout and choices are those of the first pass. Gradients reach both streams and the weights of the blocks, but no other tensors
    that the blocks read, and blocks may not add costs (`layers.costs`).

    Args:
        blocks: built `ReversibleBlock`s.
        first, second: float32 (B, L, D) each.
        visible: passed to the mixers.
    """
    walks = [Walk(block, visible) for block in blocks]
    counts = [len(walk.weights) for walk in walks]

    @ops.custom_gradient
    def run(streams, *flat):
        own = [list(flat[sum(counts[:i]) : sum(counts[: i + 1])]) for i in range(len(walks))]
        first, second = ops.split(streams, 2, axis=-1)
        for walk, weights in zip(walks, own, strict=True):
            first, second = walk.forward(first, second, weights, seed)
        streams = ops.concatenate([first, second], axis=-1)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            (first, second), slopes = ops.split(streams, 2, axis=-1), ops.split(upstream, 2, axis=-1)
            of_weights: list = []
            for walk, weights in zip(reversed(walks), reversed(own), strict=True):
                first, second, slopes, found = walk.backward(first, second, slopes, weights, seed)
                of_weights = [*found, *of_weights]
            return ops.concatenate(slopes, axis=-1), *of_weights

        return streams, gradient

    with _seeded() as seed:
        streams = run(ops.concatenate([first, second], axis=-1), *(each for walk in walks for each in walk.weights))
    return ops.split(streams, 2, axis=-1)


@contextlib.contextmanager
def _seeded():
    """Opens a seed of its own where no `dropout_seed` is open: a second pass could not draw from Keras' generator again."""
    if active_seed():
        yield active_seed()
        return
    with dropout_seed(keras.random.randint((2,), 0, 2**31 - 1, "int32")):
        yield active_seed()
