"""Whole sentences of a document in two parts, and a text from farther away (ERNIE 2.0)."""

from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import paragraphs


def stage(settings, vocabulary, rng):
    return paragraphs.paragraphs(settings.max_seq_length, settings.dupe_factor, rng)


LAYOUT = segment_layout(
    stage,
    num_segments=3,
    labels=("distance_labels",),
    token_labels=("sentence_start", "capital_labels", "repeated_labels"),
    width=lambda max_sequence_length: 2 * max_sequence_length,  # the last segment may stand in place of the one before
    hides_share=True,
)
