"""Dropout of sequences whose mask does not depend on the position (Gal and Ghahramani, 2016; Merity et al., 2017, section 4)."""

from keras import ops

from xmodels.layers.dropout import Dropout


class LockedDropout(Dropout):
    """Drops the same dimensions of all states of a text: one mask (B, 1, D) for (B, L, D)."""

    def call(self, x, training=None):
        return x * super().call(ops.ones_like(x[:, :1]), training=training)


class WordDropout(Dropout):
    """Drops words: the embeddings of all occurrences of a token in a batch are zero, or none is.

    Args:
        rate: of the rows of the table that are dropped.
        vocabulary_size: V.

    Call arguments:
        x: (B, L, D), the embeddings.
        token_ids: int (B, L).
    """

    def __init__(self, rate: float, vocabulary_size: int, **kwargs):
        super().__init__(rate, **kwargs)
        self.vocabulary_size = vocabulary_size

    def call(self, x, token_ids, training=None):
        if not training or self.rate == 0.0:
            return x
        kept = super().call(ops.ones((self.vocabulary_size, 1), dtype=x.dtype), training=training)  # (V, 1)
        return x * ops.take(kept, token_ids, axis=0)
