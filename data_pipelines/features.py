"""The one dialect spoken in every room: what a batch may contain. Pure Python, imports nothing heavy.

Names (shapes without the leading batch axis):

    token_ids (L,) segment_ids (L,) padding_mask (L,) True on real tokens; word_start (L,) 1 where a word opens
    segment_lengths (2,) tokens of the first and second segment, before [CLS] and [SEP] are added
    mask_positions (P,) labels (P,) label_weights (P,) 0 where a slot is unused
    next_sentence_labels () 1 where the second segment is a random one
    example_weights () 0 on rows that only fill up a batch; seed () 64 random bits of this example in this epoch
"""

import dataclasses
from collections.abc import Mapping

from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class Feature:
    """The shape (None for a free axis) and dtype of one feature of one example."""

    shape: tuple[int | None, ...] = ()
    dtype: str = "int32"


Features = Mapping[str, Feature]


def check(features: Features, expected: Features, where: str) -> None:
    """Raises a DataError that names the feature, what was found, what was expected, and where."""
    for name, wanted in expected.items():
        if name not in features:
            raise DataError(f"{where}: feature `{name}` is missing. Found: {', '.join(sorted(features))}.")
        found = features[name]
        fits = len(found.shape) == len(wanted.shape) and all(
            w is None or f is None or w == f for f, w in zip(found.shape, wanted.shape, strict=True)
        )
        if not fits:
            raise DataError(f"{where}: feature `{name}` has shape {list(found.shape)}, expected {list(wanted.shape)}.")
