"""Adaptive input embeddings (Baevski and Auli, 2019) and adaptive softmax (Grave et al., 2017): rare tokens get narrow tables.

Token ids are sorted by frequency, the most frequent first. Cluster i holds those from cutoffs[i - 1] up to, not including,
cutoffs[i]; its table has `embedding_dim` // `embedding_division` ** i columns. If `embedding_division` is 1 there is one table.
"""

import keras
from keras import ops

from xmodels.layers.initialization import Initialization

LEAST = 20_000  # smaller vocabularies are not split into clusters
WORDS, WORD_CUTOFFS = 267_735, (20_000, 40_000, 200_000)  # of WikiText-103


class AdaptiveEmbedding(keras.layers.Layer):
    """Token embeddings times sqrt(D): int (B, L) -> (B, L, D).

    `tables` and `projections` hold one entry per cluster, or a single one if all clusters are equally wide. The projection is
    None if there is a single table whose width is D.
    """

    def __init__(self, config, initialization: Initialization, projection: Initialization, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.hidden_dim = config.hidden_dim**0.5, config.hidden_dim
        self.ends = (*config.cutoffs, config.vocabulary_size)
        self.widths = widths_of(config)
        rows = [config.vocabulary_size] if len(self.widths) == 1 else cluster_sizes(config)
        for i, (size, width) in enumerate(zip(rows, self.widths, strict=True)):
            table = self.add_weight(shape=(size, width), initializer=initialization.inner(), name=f"table_{i}")
            setattr(self, f"table_{i}", table)
            if len(self.widths) > 1 or width != config.hidden_dim:
                shape = (width, config.hidden_dim)
                setattr(
                    self, f"projection_{i}",
                    self.add_weight(shape=shape, initializer=projection.inner(), name=f"projection_{i}"),
                )  # fmt: skip

    @property
    def tables(self):
        return [getattr(self, f"table_{i}") for i in range(len(self.widths))]

    @property
    def projections(self):
        return [getattr(self, f"projection_{i}", None) for i in range(len(self.widths))]

    def call(self, token_ids):
        token_ids = ops.cast(token_ids, "int32")  # as `Embedding` does: Keras traces a SavedModel with floats
        if len(self.widths) == 1:
            x = ops.take(ops.cast(self.tables[0], self.compute_dtype), token_ids, axis=0)
            return self._project(x, self.projections[0]) * self.scale
        x, start = 0.0, 0
        for table, projection, end in zip(self.tables, self.projections, self.ends, strict=True):
            inside = ops.logical_and(token_ids >= start, token_ids < end)
            rows = ops.take(
                ops.cast(table, self.compute_dtype), ops.clip(token_ids - start, 0, end - start - 1), axis=0
            )
            x = x + self._project(rows, projection) * ops.expand_dims(ops.cast(inside, self.compute_dtype), -1)
            start = end
        return x * self.scale

    def _project(self, x, projection):
        return x if projection is None else ops.matmul(x, ops.cast(projection, x.dtype))


class AdaptiveSoftmax(keras.layers.Layer):
    """A softmax over the tokens of the first cluster and one entry for each other cluster, and a softmax within each of these.

    The tables are those of the `AdaptiveEmbedding`. So is the projection of cluster i if character i of `tied_projections` is
    "T"; "F" gives the softmax a projection of its own. All clusters are computed at all positions, so shapes are static and all
    log-probabilities are exact: this saves parameters, not time.
    """

    def __init__(self, config, initialization: Initialization, projection: Initialization, **kwargs):
        super().__init__(**kwargs)
        self.sizes, widths = cluster_sizes(config), widths_of(config)
        tails = len(self.sizes) - 1
        self.tied = (config.tied_projections or "T" * len(self.sizes)).ljust(len(self.sizes), "T")
        if tails:
            shape = (tails, widths[0])
            self.cluster_weight = self.add_weight(
                shape=shape, initializer=initialization.inner(), name="cluster_weight"
            )
            self.cluster_bias = self.add_weight(shape=(tails,), initializer="zeros", name="cluster_bias")
        for i, size in enumerate(self.sizes):
            setattr(self, f"bias_{i}", self.add_weight(shape=(size,), initializer="zeros", name=f"bias_{i}"))
            width = widths[i if len(widths) > 1 else 0]
            needed = len(widths) > 1 or width != config.hidden_dim
            if self.tied[i] == "F" and needed:
                shape = (width, config.hidden_dim)
                own = self.add_weight(shape=shape, initializer=projection.inner(), name=f"projection_{i}")
                setattr(self, f"projection_{i}", own)

    def logits(self, x, embedding: AdaptiveEmbedding):
        """Returns logits whose log-softmax is `log_probabilities`, normalised only if needed: (..., D) -> float32 (..., V)."""
        return self._logits(x, embedding, 0) if len(self.sizes) == 1 else self.log_probabilities(x, embedding)

    def log_probabilities(self, x, embedding: AdaptiveEmbedding):
        """Returns the log-probability of each token: (..., D) -> float32 (..., V)."""
        head = self._logits(x, embedding, 0)
        if len(self.sizes) == 1:
            return ops.log_softmax(head, axis=-1)
        projected = self._project_to_cluster(x, embedding, 0)
        clusters = ops.matmul(projected, ops.transpose(ops.cast(self.cluster_weight, x.dtype)))
        clusters = ops.cast(clusters, "float32") + ops.cast(self.cluster_bias, "float32")
        head = ops.log_softmax(ops.concatenate([head, clusters], axis=-1), axis=-1)
        found = [head[..., : self.sizes[0]]]
        for i in range(1, len(self.sizes)):
            of_cluster = head[..., self.sizes[0] + i - 1 : self.sizes[0] + i]
            found.append(of_cluster + ops.log_softmax(self._logits(x, embedding, i), axis=-1))
        return ops.concatenate(found, axis=-1)

    def _project_to_cluster(self, x, embedding, i: int):
        """Returns (..., D) -> (..., width of cluster i)"""
        shared = embedding.projections[i if len(embedding.projections) > 1 else 0]
        projection = getattr(self, f"projection_{i}", shared)
        return x if projection is None else ops.matmul(x, ops.transpose(ops.cast(projection, x.dtype)))

    def _logits(self, x, embedding, i: int):
        if len(embedding.tables) > 1:
            table = ops.convert_to_tensor(embedding.tables[i])
        else:
            start = sum(self.sizes[:i])
            table = ops.convert_to_tensor(embedding.tables[0])[start : start + self.sizes[i]]
        logits = ops.matmul(self._project_to_cluster(x, embedding, i), ops.transpose(ops.cast(table, x.dtype)))
        return ops.cast(logits, "float32") + ops.cast(getattr(self, f"bias_{i}"), "float32")


def cutoffs_of(vocabulary_size: int) -> tuple[int, ...]:
    """Returns the ends of all clusters but the last, in proportion to those of WikiText-103 (Dai et al., 2019).

    Returns () for vocabularies below `LEAST`, for which a plain softmax is cheap.
    """
    if vocabulary_size < LEAST:
        return ()
    return tuple(round(end * vocabulary_size / WORDS / 1000) * 1000 for end in WORD_CUTOFFS)


def cluster_sizes(config) -> list[int]:
    """Returns the number of tokens of each cluster."""
    ends = [*config.cutoffs, config.vocabulary_size]
    return [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def widths_of(config) -> list[int]:
    """Returns the width of each table."""
    if config.embedding_division == 1 or not config.cutoffs:
        return [config.embedding_dim]
    return [max(1, config.embedding_dim // config.embedding_division**i) for i in range(len(config.cutoffs) + 1)]
