"""Input embeddings."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer


class SumEmbedding(Layer):
    """LayerNorm(token + segment + position), then dropout (Devlin et al., 2018, figure 2). No sqrt(D) scaling.

    D is `embedding_dim` of the configuration, by default the width of the network.

    Args:
        num_positions: rows of the table of positions; by default `max_sequence_length`.

    Call arguments:
        token_ids: int (B, L), with L at most `max_sequence_length`.
        segment_ids: int (B, L).
        position_ids: int (B, L), where rows hold several examples; by default 0, 1, 2, ...

    Returns:
        (B, L, D)

    Raises:
        ValueError: the input is longer than the table of positions.
    """

    def __init__(self, config, num_positions: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = config.max_sequence_length

        def table(rows, name):
            initializer = truncated_normal(config.initializer_stddev)
            return keras.layers.Embedding(rows, config.embedding_dim, embeddings_initializer=initializer, name=name)

        self.token = table(config.vocabulary_size, "token")
        self.segment = table(config.num_segments, "segment")
        self.position = table(num_positions or config.max_sequence_length, "position")
        self.norm = keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, name="norm")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, segment_ids, position_ids=None, training=None):
        if position_ids is None:
            position_ids = positions_of(token_ids, self.max_sequence_length)  # (1, L)
        x = self.token(token_ids) + self.segment(segment_ids)  # (B, L, D)
        x = x + self.position(position_ids)
        return self.dropout(self.norm(x), training=training)


class TokenPositionEmbedding(Layer):
    """token + learned position, then dropout (Radford et al., 2018, equation 2). No norm, no sqrt(D) scaling.

    Call arguments:
        token_ids: int (B, L).
        position_ids: int (B, L) or (1, L); by default 0, 1, 2, ...

    Returns:
        (B, L, D)

    Raises:
        ValueError: the input is longer than the table of positions.
    """

    def __init__(self, config, position_stddev: float | None = None, **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = config.max_sequence_length

        def table(rows, stddev, name):
            initializer = keras.initializers.RandomNormal(stddev=stddev)
            return keras.layers.Embedding(rows, config.hidden_dim, embeddings_initializer=initializer, name=name)

        stddev = config.initializer_stddev
        self.token = table(config.vocabulary_size, stddev, "token")
        self.position = table(config.max_sequence_length, position_stddev or stddev, "position")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, position_ids=None, training=None):
        if position_ids is None:
            position_ids = positions_of(token_ids, self.max_sequence_length)  # (1, L)
        return self.dropout(self.token(token_ids) + self.position(position_ids), training=training)


def positions_of(token_ids, most: int):
    """0, 1, 2, ... for (B, L): int (1, L). Raises a ValueError where L is known and above `most`."""
    length = token_ids.shape[1]
    if length is not None and length > most:
        raise ValueError(
            "The input is longer than the table of position embeddings. "
            f"Received: length={length}, max_sequence_length={most}."
        )
    return ops.expand_dims(ops.arange(ops.shape(token_ids)[1], dtype="int32"), 0)
