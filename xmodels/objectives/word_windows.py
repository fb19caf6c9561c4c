"""What predicts what in the windows of skip-gram and CBOW (Mikolov et al., 2013a, arXiv 1301.3781; word2vec.c; fastText)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.gradients import scale_gradient
from xmodels.layers.word_windows import Windows
from xmodels.objectives.base import Objective


class Contexts:
    """Skip-gram: each word predicts the words of its window, one by one."""

    def inputs(self, states, rows, windows):
        """Returns what predicts, (B, N, D): the vector of each word.

        A vector may be the mean of several rows; as in fastText, each of them gets the whole gradient.

        Args:
            states: (B, N, D), vectors of words.
            rows: (B, N), how many rows each of them is the mean of.
            windows: `Windows`.
        """
        return scale_gradient(states, ops.expand_dims(rows, -1))

    def weights(self, windows):
        """Returns how many predictions are made at each place, (B, N)."""
        return windows.sizes

    def positives(self, inputs, outputs, windows):
        """Returns the loss of all predictions of a batch. `outputs` are vectors of the words as predicted ones, (B, N, D)."""
        nearby = ops.transpose(windows.nearby(outputs), (0, 1, 3, 2))  # (B, K, D, m)
        return ops.sum(ops.softplus(-ops.matmul(windows.blocks(inputs), nearby)) * windows.mask)

    def matches(self, same, windows):
        """Returns how many predictions at each place have a negative as their answer, (B, K, n, S).

        Args:
            same: (B, K, m, S), 1 where one of the `nearby` words of a block equals a negative.
        """
        return ops.matmul(windows.mask, same)

    def paths(self, inputs, nodes, windows):
        """Returns the scores of inner nodes, (B, N, 2c, T), and the weights of predictions, (B, N, 2c).

        As in word2vec.c, the words of the window of a word predict it one by one.

        Args:
            nodes: (B, N, T, D), the vectors of the nodes on the way to the word at each place.
        """
        return ops.einsum("blcd,blnd->blcn", windows.sides(inputs), nodes), windows.side_mask


class Center:
    """CBOW: the mean of the words of a window predicts the word in its middle.

    Args:
        true_gradient: whether the gradient of the mean is that of a mean. word2vec.c adds the gradient with respect to the mean to
            each of the words, without dividing it by their number.
    """

    def __init__(self, true_gradient: bool = False):
        self.true_gradient = true_gradient

    def inputs(self, states, rows, windows):
        # A vector that is the mean of many rows counts as many.
        weighted = windows.nearby(states * rows[..., None])
        sums = windows.rows(ops.matmul(windows.mask, weighted))
        total = windows.rows(ops.matmul(windows.mask, windows.nearby(rows)[..., None]))  # (B, N, 1)
        means = sums / ops.maximum(total, 1.0)
        return means if self.true_gradient else scale_gradient(means, total)

    def weights(self, windows):
        return ops.minimum(windows.sizes, 1.0)

    def positives(self, inputs, outputs, windows):
        return ops.sum(ops.softplus(-ops.sum(inputs * outputs, axis=-1)) * self.weights(windows))

    def matches(self, same, windows):
        own = same[:, :, windows.reach : windows.reach + windows.block]
        return own * windows.blocks(self.weights(windows))[..., None]

    def paths(self, inputs, nodes, windows):
        return ops.einsum("bld,blnd->bln", inputs, nodes)[:, :, None], self.weights(windows)[:, :, None]


class WindowObjective(Objective):
    """Base of what is learnt from windows. The loss of a step is the sum over its predictions, since the learning rate of word2vec
    is that of a prediction; the log shows the mean.

    Args:
        predict: `Contexts` or `Center`.
        reach: the most words to each side.
    """

    reads = {"token_ids": Feature((None,)), "segment_lengths": Feature((None,))}
    needs = {
        "center_ids": Feature((None,)),
        "window_starts": Feature((None,)),
        "window_ends": Feature((None,)),
    }
    sums_examples = True

    def __init__(self, predict: Contexts | Center, reach: int = 5, **kwargs):
        super().__init__(**kwargs)
        self.predict, self.reach = predict, reach

    def batch_features(self, backbone):
        return (*super().batch_features(backbone), *backbone.word_features)

    def inputs(self, backbone, batch):
        """Returns what predicts, float32 (B, N, D), and the windows."""
        windows = Windows(batch["window_starts"], batch["window_ends"], self.reach)
        states, rows = backbone.word_states(batch)
        return self.predict.inputs(ops.cast(states, "float32"), rows, windows), windows

    def counts(self, batch):
        words = ops.cast(batch["padding_mask"], "float32")
        sizes = Windows(batch["window_starts"], batch["window_ends"], self.reach).sizes
        return {"words": (ops.sum(words), _size(words)), "pairs": (ops.sum(sizes), 2.0 * self.reach * _size(sizes))}


def _size(x):
    return ops.cast(ops.size(x), "float32")
