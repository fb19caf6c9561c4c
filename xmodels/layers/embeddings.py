"""Input embeddings."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization, RandomUniform, bert
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm


class SumEmbedding(Layer):
    """LayerNorm(token + segment + position), then dropout (Devlin et al., 2018, figure 2). No sqrt(D) scaling.

    D is `embedding_dim` of the configuration, by default its `hidden_dim`. There are no segments where its `num_segments` is 0.

    Args:
        num_positions: rows of the table of positions; by default `max_sequence_length`.
        initialization: of the tables; by default BERT's.

    Call arguments:
        token_ids: int (B, L), with L at most `max_sequence_length`.
        segment_ids: int (B, L); ignored where there are no segments.
        position_ids: int (B, L), if rows hold several examples; by default 0, 1, 2, ...

    Returns:
        (B, L, D)

    Raises:
        ValueError: the input is longer than `max_sequence_length`.
    """

    def __init__(
        self, config, num_positions: int | None = None, initialization: Initialization | None = None, **kwargs
    ):
        super().__init__(**kwargs)
        self.max_sequence_length = config.max_sequence_length

        self.token = _table(config, config.vocabulary_size, "token", initialization)
        self.segment = _table(config, config.num_segments, "segment", initialization) if config.num_segments else None
        self.position = _table(config, num_positions or config.max_sequence_length, "position", initialization)
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, segment_ids=None, position_ids=None, training=None):
        x = self.token(token_ids)
        x = x if self.segment is None else x + self.segment(segment_ids)
        return self.add_positions(x, token_ids, position_ids, training)

    def add_positions(self, x, token_ids, position_ids=None, training=None):
        """Adds the position embeddings to x (B, L, D), then applies norm and dropout."""
        if position_ids is None:
            position_ids = positions_of(token_ids, self.max_sequence_length)  # (1, L)
        x = x + self.position(position_ids)
        return self.dropout(self.norm(x), training=training)


class ErnieEmbedding(SumEmbedding):
    """BERT's embedding plus a task embedding (Sun et al., 2020, arXiv 1907.12412, section 3.1), and in dialogues a speaker
    embedding in place of that of the segment (Sun et al., 2019, arXiv 1904.09223, section 3.3.2).

    There is a table of tasks if the configuration has `num_tasks`, and one of speakers if it has `num_roles`.

    Call arguments:
        token_ids, segment_ids, position_ids: as in `SumEmbedding`.
        task_ids: int (B, L); by default task 0.
        role_ids: int (B, L), in dialogues; `segment_ids` is then ignored.

    Returns:
        (B, L, D)

    Raises:
        ValueError: `role_ids` is given, but there is no table of speakers.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.task = _table(config, config.num_tasks, "task") if config.num_tasks else None
        self.role = _table(config, config.num_roles, "role") if config.num_roles else None
        if self.role:
            self.role.build()  # batches without dialogues never call it

    def call(self, token_ids, segment_ids, position_ids=None, task_ids=None, role_ids=None, training=None):
        if role_ids is not None and self.role is None:
            raise ValueError("`role_ids` need a table of roles: `num_roles` of the configuration is None.")
        x = self.token(token_ids)
        x = x + (self.segment(segment_ids) if role_ids is None else self.role(role_ids))
        if self.task:
            x = x + self.task(ops.zeros_like(token_ids) if task_ids is None else task_ids)
        return self.add_positions(x, token_ids, position_ids, training)


def _table(config, rows: int, name: str, initialization: Initialization | None = None) -> keras.layers.Embedding:
    initializer = (initialization or bert(config.initializer_stddev)).inner()
    return keras.layers.Embedding(rows, config.embedding_dim, embeddings_initializer=initializer, name=name)


class TokenPositionEmbedding(Layer):
    """token + learned position, then dropout (Radford et al., 2018, equation 2). No norm, no sqrt(D) scaling.

    Args:
        position_stddev: of the initial positions; by default `initializer_stddev` of the configuration.

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


def word_vectors(vocabulary_size: int, embedding_dim: int, **kwargs) -> keras.layers.Embedding:
    """Returns an embedding layer whose initial vectors are as large as trained ones: uniform(-0.25, 0.25) (Kim, 2014, section 3.1)."""
    initializer = RandomUniform(-0.25, 0.25)
    return keras.layers.Embedding(vocabulary_size, embedding_dim, embeddings_initializer=initializer, **kwargs)


def positions_of(token_ids, most: int):
    """Returns the positions 0, 1, 2, ... of `token_ids` (B, L): int (1, L). Raises a ValueError if L is static and above `most`."""
    length = token_ids.shape[1]
    if length is not None and length > most:
        raise ValueError(
            "The input is longer than the table of position embeddings. "
            f"Received: length={length}, max_sequence_length={most}."
        )
    return ops.expand_dims(ops.arange(ops.shape(token_ids)[1], dtype="int32"), 0)
