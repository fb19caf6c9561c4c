"""The one dialect spoken in every room: what a batch may contain. Pure Python, imports nothing heavy.

Names (shapes without the leading batch axis):

    token_ids (L,) segment_ids (L,) padding_mask (L,) True on real tokens; word_start (L,) 1 where a word opens
    segment_lengths (2,) tokens of the first and second segment, before [CLS] and [SEP] are added
    mask_positions (P,) labels (P,) label_weights (P,) 0 where a slot is unused
    sentence_order_labels () 1 where the two segments are swapped
    next_sentence_labels () 1 where the second segment is a random one
    pack_ids (L,) 1, 2, ... for the examples of a row of several, 0 on padding; position_ids (L,) from 0 in each of them
    pack_starts (K,) where each of them begins; other features without axis have (K,) in such rows

Records of labelled data hold ids without special tokens, the first text and then the second, and `segment_lengths` of both:

    example_ids () the place of the example in its input, from 0; the windows of a question share one
    labels () a class or the right choice; float: a score. (L,) the tag of each token, (N,) relevance of each candidate
    label_weights (L,) 1 on the first token of a word; (N,) 1 where there is a candidate. choice_weights (N,) likewise
    word_ids (L,) the word to which a token belongs; candidate_ids (N,) the place of a candidate in its list
    token_ids (N, L), segment_lengths (N, 2) where a record holds N pairs of texts; target_ids (T,) of a translation
    has_answer () 0 where the window does not hold the answer; then start_positions and end_positions are 0 too
    start_positions () end_positions () the first and the last token of the answer, counted within `token_ids`
    char_starts (L,) char_ends (L,) which characters of the text a token covers; 0 in the question
    most_context (L,) 1 where no other window shows more text around the token

In batches:

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
