"""Disentangled attention: scores of contents, of a content with a relative position, and of a relative position with a content (He et
al., 2020, arXiv 2006.03654, section 3.1)."""

import dataclasses
from typing import ClassVar

import numpy as np
from keras import ops

from xmodels.layers.attention.core import attend, attention_scores, split_heads
from xmodels.layers.attention.relative import relative_shift
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer
from xmodels.layers.mixers import Numbers, ProjectedMixer, number
from xmodels.layers.norms import LayerNorm

CONTENT_TO_POSITION, POSITION_TO_CONTENT = "c2p", "p2c"
KINDS = ("c2p|p2c", CONTENT_TO_POSITION, POSITION_TO_CONTENT)
LARGEST = 1_000_000


@dataclasses.dataclass(frozen=True)
class DisentangledNumbers(Numbers):
    """The numbers of `Disentangled`, by the names of the released configurations."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"position_buckets": (0, LARGEST)}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"pos_att_type": KINDS}
    position_buckets: int = number(
        256,
        "buckets of distances on each side: half of them hold one distance each, the others ever wider ranges. 0: each distance",
    )
    pos_att_type: str = number(
        "c2p|p2c",
        "which scores are added to those of contents. c2p: of a content with a position. p2c: of a position with a content. c2p|p2c: "
        "both",
    )
    share_att_key: bool = number(True, "whether positions are projected by the layers that project contents")


class RelativePositions(Layer):
    """A vector for each bucket of distances, normalised and then dropped out.

    Args:
        most: the longest distance that is told from others, at least 2.
        buckets: on each side; 0 for as many as `most`.
        hidden_dim: D.
        initializer: of the table.
        dropout: of the vectors.
        epsilon: of the norm; None for no norm.

    Call arguments:
        distances: int (N,), positions of queries minus those of keys.

    Returns:
        (N, D)
    """

    def __init__(
        self, most: int, buckets: int, hidden_dim: int, initializer, dropout: float = 0.0, epsilon: float | None = None, **kwargs
    ):  # fmt: skip
        super().__init__(**kwargs)
        rows = rows_of(np.arange(1 - most, most), buckets, most)
        self.most, self._rows = most, rows
        self.table = self.add_weight(shape=(2 * (buckets or most), hidden_dim), initializer=initializer, name="table")
        if epsilon is not None:
            self.norm = LayerNorm(epsilon=epsilon, name="norm")
        self.has_norm = epsilon is not None
        self.dropout = Dropout(dropout)

    def call(self, distances, training=None):
        places = ops.clip(distances, 1 - self.most, self.most - 1) + (self.most - 1)
        rows = ops.take(ops.convert_to_tensor(self._rows), places, axis=0)
        vectors = ops.take(self.table, rows, axis=0)
        return self.dropout(self.norm(vectors) if self.has_norm else vectors, training=training)


def rows_of(distances: np.ndarray, buckets: int, most: int) -> np.ndarray:
    """Returns the row of a table of relative positions for each distance, int32 (N,).

    Computed in float32 as in the released code, since rounding decides at the bounds of the buckets.

    Args:
        distances: int (N,).
        buckets: on each side; 0 for one of each distance.
        most: the longest distance.
    """
    found = np.array(distances, "int64")
    half = buckets // 2
    wide = np.abs(found) > half if buckets else np.zeros_like(found, bool)
    if wide.any():
        far = np.abs(found[wide]).astype("float32") / np.float32(half)
        share = np.log(far) / np.log(np.float32((most - 1) / half)) * np.float32(half - 1)
        found[wide] = np.sign(found[wide]) * (np.ceil(share).astype("int64") + half)
    span = buckets or most
    return np.clip(found + span, 0, 2 * span - 1).astype("int32")


class Disentangled(ProjectedMixer):
    """Softmax attention whose scores are the sum of three products, divided by sqrt(3 K): Q_c K_c, Q_c K_r of the distance, and
    K_c Q_r of the distance, of contents c and relative positions r (equation 4). As in the released code both distances are that from
    query to key.

    Each vector of a distance is projected once a layer, and scores by distance become scores by key by a shift, so no tensor larger
    than (B, H, L, 2 L) is made, and no score is gathered.

    Args:
        positions: a `RelativePositions`, which several layers share.
        kinds: of `KINDS`.
        shares_projections: whether positions are projected by `query` and `key`, or by layers of their own. Others as in
            `ProjectedMixer`.
    """

    numbers = DisentangledNumbers
    supports = frozenset({"padding", "packs", "window", "global_ids"})
    compares_all = True

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float, initialization: Initialization, positions: RelativePositions,
        kinds: str = KINDS[0], shares_projections: bool = True, **kwargs,
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, **kwargs)
        self.positions, self.shares_projections = positions, shares_projections
        self.to_position, self.from_position = CONTENT_TO_POSITION in kinds, POSITION_TO_CONTENT in kinds
        self.scale = (self.head_dim * (1 + self.to_position + self.from_position)) ** -0.5
        if self.to_position and not shares_projections:
            self.position_key = split_heads(num_heads, self.head_dim, "position_key", initialization)
        if self.from_position and not shares_projections:
            self.position_query = split_heads(num_heads, self.head_dim, "position_query", initialization)

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        numbers, shared = config.mixer_numbers, {} if shared is None else shared
        if "relative_positions" not in shared:
            shared["relative_positions"] = RelativePositions(
                config.max_sequence_length, numbers.position_buckets, config.hidden_dim, initialization.inner(), config.dropout,
                getattr(config, "layer_norm_epsilon", 1e-7), name="positions",
            )  # fmt: skip
        return cls(
            config.num_heads, config.hidden_dim, config.attention_dropout, initialization, shared["relative_positions"],
            numbers.pos_att_type, numbers.share_att_key,
        )  # fmt: skip

    def mix(self, query, key, value, visible, training=None):
        return attend(
            query, key, value, visible, self.by_position(query, key, training), self.scale, self.dropout, training
        )

    def by_position(self, query, key, training=None):
        """Returns the scores in which positions have a part, scaled: (B, L, H, K) and (B, S, H, K) -> (B, H, L, S)."""
        queries, keys = ops.shape(query)[1], ops.shape(key)[1]
        distances = (queries - 1) - ops.arange(queries + keys - 1, dtype="int32")  # descending (N,), N = L + S - 1
        vectors = ops.expand_dims(self.positions(distances, training=training), 0)  # (1, N, D)
        scores = 0.0
        if self.to_position:
            place = (self.key if self.shares_projections else self.position_key)(vectors)[0]  # (N, H, K)
            by_distance = ops.einsum("blhk,nhk->bhln", query * self.scale, place)
            scores = scores + relative_shift(by_distance)[..., :keys]
        if self.from_position:
            place = (self.query if self.shares_projections else self.position_query)(vectors)[0]
            by_distance = ops.einsum("bshk,nhk->bhsn", key * self.scale, ops.flip(place, axis=0))  # ascending
            scores = scores + ops.swapaxes(relative_shift(by_distance)[..., :queries], 2, 3)
        return scores

    def scores(self, x, visible=None):
        length, query, key = ops.shape(x)[1], self.query(x), self.key(x)
        attention_mask = self.supported(visible).dense(length, length)
        return attention_scores(query, key, attention_mask, self.by_position(query, key), self.scale)
