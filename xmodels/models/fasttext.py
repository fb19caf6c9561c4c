"""fastText's vectors of words, which are the means of those of their parts (Bojanowski et al., 2017, TACL; Joulin et al., 2016)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import CHARACTERS, Feature
from xmodels.layers.subwords import WordRows
from xmodels.models.backbone import Backbone
from xmodels.models.config import LARGEST, TokenConfig

BUCKETS = 2_000_000
NGRAMS = (0, 12)  # bounds of characters of a part; 0 for words without parts


@dataclasses.dataclass(frozen=True)
class FastTextConfig(TokenConfig):
    """`hidden_dim` is the width of a vector; parts of words have `shortest_ngram` to `longest_ngram` characters and share `buckets`
    rows, of which `kept_buckets` are left in a pruned network (0: all). `unknown_id` is the word that has no row of its own."""

    bounds: ClassVar = {
        "buckets": (0, LARGEST),
        "shortest_ngram": NGRAMS,
        "longest_ngram": NGRAMS,
        "kept_buckets": (0, LARGEST),
        "unknown_id": (0, LARGEST),
    }
    buckets: int = BUCKETS
    shortest_ngram: int = 3
    longest_ngram: int = 6
    kept_buckets: int = 0
    unknown_id: int = 1
    dropout: float = 0.0


@keras.saving.register_keras_serializable("xmodels")
class FastText(Backbone):
    """Vectors of words as means of rows, and another vector of each word as a predicted one.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), `character_ids` int (B, L, 50), the bytes of each word.

    Returns:
        A dictionary of `sequence_output` (B, L, D), the vectors of the words, which do not depend on their context.
    """

    config_class = FastTextConfig
    any_length = True
    reads = {**Backbone.reads, "character_ids": Feature((None, CHARACTERS))}
    word_features: ClassVar[tuple[str, ...]] = ("center_ids", "row_ids", "row_places")  # what `word_states` reads
    sparse_tables = ("rows.table.embeddings", "contexts.embeddings")

    def __init__(self, config: FastTextConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.rows = WordRows(config, name="rows")
        self.contexts = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, "zeros", name="contexts")
        self.contexts.build(None)

    def call(self, features, training=None):
        sums, counts = self.rows(features["token_ids"], features.get("character_ids"))
        return {"sequence_output": sums / ops.maximum(counts, 1.0)[..., None]}

    def hidden_states(self, features, training=None):
        """Returns the rows of the words alone, zeros of unknown ones, and the vectors with their parts: 2 tensors (B, L, D)."""
        alone, _ = self.rows(features["token_ids"])
        return [alone, self(features, training=training)["sequence_output"]]

    def word_states(self, batch):
        """Returns the vectors of `center_ids`, (B, N, D), and how many rows each of them is the mean of, (B, N).

        `row_ids` (B, M) are the rows of all words of an example, `row_places` (B, M) the words that they belong to, N where there is
        none.
        """
        places, (count, slots) = batch["row_places"], batch["center_ids"].shape
        segments = ops.arange(count, dtype=places.dtype)[:, None] * (slots + 1) + places
        segments = ops.reshape(segments, (-1,))
        rows = ops.cast(self.rows.table(ops.reshape(batch["row_ids"], (-1,))), "float32")  # (B M, D)
        total = count * (slots + 1)
        sums = ops.reshape(ops.segment_sum(rows, segments, total), (count, slots + 1, -1))[:, :slots]
        sizes = ops.segment_sum(ops.ones(segments.shape, "float32"), segments, total)
        sizes = ops.maximum(ops.reshape(sizes, (count, slots + 1))[:, :slots], 1.0)
        return sums / sizes[..., None], sizes


# base: the defaults of the library; tiny and small are ours.
SIZES = {
    "tiny": {"hidden_dim": 16, "buckets": 2000},
    "small": {"hidden_dim": 50, "buckets": 100_000},
    "base": {"hidden_dim": 100, "buckets": BUCKETS},
    "large": {"hidden_dim": 300, "buckets": BUCKETS},
}
