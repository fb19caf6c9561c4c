"""Multi-head attention (Vaswani et al., 2017, section 3.2.2)."""

import dataclasses

from keras import ops

from xmodels.layers.attention.core import attend, attention_scores
from xmodels.layers.attention.visible import Visible
from xmodels.layers.cached_attention import CachedAttention


class MultiHeadAttention(CachedAttention):
    """Softmax attention with H heads over all tokens, of the text itself or of a context. Arguments as in `ProjectedMixer`."""

    supports = frozenset(field.name for field in dataclasses.fields(Visible))
    compares_all = True
    places_texts = True  # it looks at no positions but by the slots that are seen

    def mix(self, query, key, value, visible, training=None):
        return attend(query, key, value, visible, dropout=self.dropout, training=training)

    def scores(self, x, visible=None):
        length = ops.shape(x)[1]
        return attention_scores(self.query(x), self.key(x), self.supported(visible).dense(length, length))
