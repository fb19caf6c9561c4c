"""fastText's classifier: the mean of the vectors of words, of their parts, and of runs of words (Joulin et al., 2016, 1607.01759)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import CHARACTERS, Feature
from xmodels.layers.subwords import WordRows, run_buckets, word_hashes
from xmodels.models.backbone import Backbone
from xmodels.models.fasttext import FastTextConfig


@dataclasses.dataclass(frozen=True)
class FastTextClassifierConfig(FastTextConfig):
    """As `FastTextConfig`. Runs of 2 to `word_ngrams` words have rows too, in the same buckets."""

    bounds: ClassVar = {**FastTextConfig.bounds, "word_ngrams": (1, 10)}
    shortest_ngram: int = 0
    longest_ngram: int = 0
    word_ngrams: int = 1


@keras.saving.register_keras_serializable("xmodels")
class FastTextClassifier(Backbone):
    """The mean of the rows of a text. A Dense layer on it, without anything between, is the classifier.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), `character_ids` int (B, L, 50), the bytes of each word. A text
            ends with a mark, which is fastText's `</s>`.

    Returns:
        A dictionary of `sequence_output` (B, L, D), the vectors of words, and `pooled_output` (B, D), that of the text.
    """

    config_class = FastTextClassifierConfig
    any_length = True
    from_labels = True
    sparse_tables = ("rows.table.embeddings",)
    read_as: ClassVar = {
        "head_dropout": 0.0,
        "has_bias": False,
        "make_initializer": lambda stddev: keras.initializers.Zeros(),
        "numbers": {
            "learning_rate": 1e-2,
            "warmup_proportion": 0.0,
            "optimizer": "lazy_adam",
            "lr_schedule": "linear",
            "clip_norm": 0.0,
        },
    }
    reads = {**Backbone.reads, "character_ids": Feature((None, CHARACTERS))}

    def __init__(self, config: FastTextClassifierConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.rows = WordRows(config, name="rows")

    def call(self, features, training=None):
        characters, real = features["character_ids"], ops.cast(features["padding_mask"], "bool")
        sums, counts = self.rows(features["token_ids"], characters)
        there = ops.cast(real, sums.dtype)
        total, number = ops.sum(sums * there[..., None], axis=1), ops.sum(counts * there, axis=1)  # (B, D), (B,)
        if self.config.word_ngrams > 1 and self.config.buckets:
            hashes = word_hashes(characters)
            for bucket, runs in run_buckets(hashes, real, self.config.word_ngrams, self.config.buckets):
                found, ones = self.rows.of_buckets(bucket, runs)
                total, number = total + ops.sum(found, axis=1), number + ops.sum(ones, axis=1)
        pooled = total / ops.maximum(number, 1.0)[:, None]
        return {"sequence_output": sums / ops.maximum(counts, 1.0)[..., None], "pooled_output": pooled}


# base: the library's defaults; tiny and small are ours.
SIZES = {
    "tiny": {"hidden_dim": 16, "buckets": 2000},
    "small": {"hidden_dim": 10, "buckets": 100_000},
    "base": {"hidden_dim": 100, "buckets": 2_000_000},
}
