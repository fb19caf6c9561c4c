"""Flags of `--task=siamese`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.PoolingOptions, base.FreezingOptions, base.FinetuneOptions):
    """Vectors of texts, from pairs or triplets."""

    siamese_loss: str | None = option(None, "multiple_negatives: each first text must find its own second text among those of the batch; use batches of 64 and more. classification: labels, by a layer on both vectors. cosine: scores. contrastive, online_contrastive: labels 1 and 0, all pairs or only the hard ones of a batch. triplet: anchor, positive, negative. Default: multiple_negatives.", choices=("multiple_negatives", "classification", "cosine", "contrastive", "online_contrastive", "triplet"), section="Siamese networks: pairs or triplets of texts (docs/siamese.md)", structural=True)  # fmt: skip
    negative_column: str | None = option(None, "For triplet and multiple_negatives: column of a third text that does not match the first.")  # fmt: skip
    siamese_scale: float | None = option(None, "Factor for the cosines in multiple_negatives. Default: 20.", structural=True)  # fmt: skip
    siamese_margin: float | None = option(None, "Margin of the contrastive losses, in siamese_distance (default 0.5), and of triplet, in Euclidean distance (default 1).", structural=True)  # fmt: skip
    siamese_distance: str | None = option(None, "Distance in the contrastive losses: cosine, which is 1 - cosine similarity, or euclidean. Predictions are cosines in any case. Default: cosine.", choices=("cosine", "euclidean"), structural=True)  # fmt: skip
    siamese_symmetric: bool = option(False, "With multiple_negatives: each second text must also find its first text.", structural=True)  # fmt: skip
    siamese_features: str | None = option(None, "What the layer of classification reads of the vectors u and v of two texts: some of u, v, difference (absolute), product, comma-separated. Default: u,v,difference.", structural=True)  # fmt: skip
    max_score: float | None = option(None, "With siamese_loss=cosine: the score that corresponds to a cosine of 1, such as 5 for STS-B. Default: 1.", structural=True)  # fmt: skip
    projection_dim: int | None = option(None, "Width of a Dense layer with tanh after the pooling, and so of the vectors. Default: no such layer.", minimum=1, structural=True)  # fmt: skip
    normalize_vectors: bool = option(False, "Normalize vectors to length 1, in the loss too. (An index normalizes in any case.)", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Columns of a file of triplets."""

    negative_column: str | None = option(None, "Column of a third text that does not match the first.", section="Siamese networks (docs/siamese.md)")  # fmt: skip
