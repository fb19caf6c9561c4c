"""Attention whose queries and keys are turned by their positions (Su et al., 2021, arXiv 2104.09864, section 3.2)."""

from keras import ops

from xmodels.layers.attention.core import attend, attention_scores
from xmodels.layers.attention.local_window import LocalWindow


class RotaryAttention(LocalWindow):
    """Softmax attention with rotary positions, to all tokens or to those of a window.

    A score depends on the distance of two tokens only, so positions may count on through packed rows.

    Args:
        theta: the base of the angles: dimension pair i of K turns by position / theta ** (2 i / K).
        window: how many tokens a token attends to on each side; None for all. Others as in `ProjectedMixer`.
    """

    def __init__(self, *args, theta: float, window: int | None = None, **kwargs):
        super().__init__(*args, window=window or 1, **kwargs)
        self.theta, self.is_local = theta, window is not None

    def mix(self, query, key, value, visible, training=None):
        query, key = turn(query, self.theta), turn(key, self.theta)
        if self.is_local:
            return super().mix(query, key, value, visible, training)
        return attend(query, key, value, visible, dropout=self.dropout, training=training)

    def reach(self, length):
        return super().reach(length) if self.is_local else None

    def scores(self, x, visible=None):
        length, visible = ops.shape(x)[1], self.supported(visible)
        attention_mask = (self.narrow_visible(visible) if self.is_local else visible).dense(length, length)
        query, key = (turn(each, self.theta) for each in (self.query(x), self.key(x)))
        return attention_scores(query, key, attention_mask)

    def start(self, batch, length: int):
        raise TypeError("RotaryAttention does not decode.")


def turn(x, theta: float):
    """Turns each pair of dimensions (i, i + K/2) of x (B, L, H, K) by its angle at the position of the token; in float32."""
    length, width = ops.shape(x)[1], x.shape[-1]
    frequencies = theta ** (-ops.arange(0, width, 2, dtype="float32") / width)  # (K/2,)
    angles = ops.expand_dims(ops.arange(length, dtype="float32"), 1) * frequencies  # (L, K/2)
    angles = ops.expand_dims(ops.concatenate([angles, angles], axis=1), 1)  # (L, 1, K)
    wide = ops.cast(x, "float32")
    swapped = ops.concatenate([-wide[..., width // 2 :], wide[..., : width // 2]], axis=-1)
    return ops.cast(wide * ops.cos(angles) + swapped * ops.sin(angles), x.dtype)
