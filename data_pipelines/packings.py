"""How documents become examples, by name: the values of `--packing`, and what readers of records must know of each.

Imports nothing heavy. `pretraining.stages.packing` holds the stages of the same names.
"""

import dataclasses

TURNS = 3  # of a dialogue, at most, in one example
IGNORED = 2  # instead of 0 or 1 in labels of tokens: does not count


@dataclasses.dataclass(frozen=True)
class Packing:
    """What the examples of a packing are like.

    Attributes:
        labels: the features, one whole number each, that its examples carry.
        num_segments: how many segments an example may have.
        is_stream: examples continue one another, so their order is kept, and batches read them in rows.
        read_as: the `--input_format` that it needs, if any.
        token_labels: features with a number for each token that its examples carry beside starts of words.
        has_alternative: whether the last segment may stand in place of the one before, so that not all of them share a row.
        facts: features, one whole number each, that its examples carry beside labels, and that older records may lack.
    """

    labels: tuple[str, ...] = ()
    num_segments: int = 1
    is_stream: bool = False
    read_as: str | None = None
    token_labels: tuple[str, ...] = ()
    has_alternative: bool = False
    facts: tuple[str, ...] = ()

    def num_pieces(self, max_sequence_length: int) -> int:
        """The most pieces that a record holds."""
        if self.read_as == "parallel" or self.has_alternative:
            return 2 * max_sequence_length  # each side, or what shares a row, by itself
        return max_sequence_length + self.is_stream  # a run also holds what comes next

    @property
    def fits_static_masks(self) -> bool:
        """Whether Google's layout of one or two segments can hold its examples."""
        return not self.is_stream and self.read_as is None and not self.has_alternative


PACKINGS = {
    "segment_pair": Packing(("next_sentence_labels",), 2),
    "sentence_pair": Packing(("next_sentence_labels",), 2),
    "sentence_order": Packing(("sentence_order_labels",), 2),
    "full_sentences": Packing(),
    "doc_sentences": Packing(),
    "stream": Packing(is_stream=True),
    "stream_bidirectional": Packing(("follows_labels", "is_reversed"), 3, is_stream=True),
    "dialogue": Packing(("dialogue_labels",), TURNS, read_as="dialogue", facts=("first_role",)),
    "parallel": Packing((), 2, read_as="parallel"),
    "paragraph": Packing(
        ("distance_labels",),
        3,
        token_labels=("sentence_start", "capital_labels", "repeated_labels"),
        has_alternative=True,
    ),
}

# One or two segments in no order: what `[CLS] A [SEP] B [SEP]` frames.
FRAMED_AS_PAIRS = tuple(name for name, packing in PACKINGS.items() if packing.fits_static_masks)
