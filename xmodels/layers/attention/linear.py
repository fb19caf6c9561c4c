"""Linear attention: Transformers are RNNs (Katharopoulos et al., 2020, arXiv 2006.16236)."""

from keras import ops

from xmodels.layers.kernel_attention import KernelAttention


class LinearAttention(KernelAttention):
    """Attention with the weights phi(q) . phi(k), phi(x) = elu(x) + 1, in O(L) instead of O(L^2)."""

    supports = frozenset({"padding", "causal", "packs"})

    def query_features(self, query):
        return ops.elu(ops.cast(query, "float32")) + 1.0
