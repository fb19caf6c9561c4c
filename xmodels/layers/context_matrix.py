"""Reading a source by one matrix of all of it, in linear time: a form of dimension-wise attention from one text to another."""

from keras import ops

from xmodels.layers.attention.tensorcoder import counts_of, real_only
from xmodels.layers.attention.visible import Visible
from xmodels.layers.mixers import ProjectedMixer


class ContextMatrix(ProjectedMixer):
    """Maps each query by G = softmax over the features of keys of KT V / sqrt(S), a matrix (K, K) of the S real tokens of the source.

    Attention between dimensions compares queries and keys of the same token, and a target has other tokens than its source; so this
    compares keys and values of the source, and a query q becomes q G. Each column of G sums to one. The cost is O(S K) and O(L K)
    per head and feature in place of O(L S); decoding keeps G alone. The paper of TensorCoder (Zhang et al., 2020,
    arXiv 2008.01547) was not at hand beyond its abstract, so this form is ours (docs/tensorcoder.md). `dropout` has no effect.

    Arguments as in `ProjectedMixer`. Call arguments as in `Mixer`; `visible` says which tokens of the context are real.
    """

    supports = frozenset({"padding"})
    has_probabilities = False

    def attend_to(self, x, projected, visible=None, training=None):
        return self.read(x, self.matrix(*projected, self.supported(visible)))

    def keep(self, x, visible: Visible | None = None):
        """Returns the matrix of a source (B, S, D), float32 (B, H, K, K)."""
        return self.matrix(*self.project(x), self.supported(visible))

    def attend_to_kept(self, x, kept, visible=None):
        """Returns what tokens (B, L, D) read by `kept`, the result of `keep`, which has seen what of the source is real."""
        return self.read(x, kept)

    def matrix(self, key, value, visible: Visible):
        """Returns G of keys and values (B, S, H, K): float32 (B, H, K, K), whose columns sum to one."""
        counts = ops.max(counts_of(key, visible), axis=1, initial=0.0)[:, None, None, None]
        key, value = real_only(key, value, visible)
        sums = ops.einsum("bshx,bshy->bhyx", key, value) / ops.sqrt(ops.maximum(counts, 1.0))
        rows = ops.reshape(sums, (-1, self.head_dim))  # TensorFlow's softmax takes few axes
        return ops.swapaxes(ops.reshape(ops.softmax(rows, axis=-1), ops.shape(sums)), -1, -2)

    def read(self, x, matrix):
        """Returns what tokens (B, L, D) read by a matrix (B, H, K, K)."""
        query = self.query(x)
        read = ops.einsum("blhx,bhxy->blhy", ops.cast(query, "float32"), matrix)
        return self.merge(ops.cast(read, query.dtype))
