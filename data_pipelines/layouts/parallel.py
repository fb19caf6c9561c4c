"""A text and its translation."""

from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import turns
from data_pipelines.records import lengths


def stage(settings, vocabulary, rng):
    return turns.parallel(settings.max_seq_length)


LAYOUT = segment_layout(
    stage,
    num_segments=2,
    read_as="parallel",
    joining=lambda language: list,
    lengths=lengths.of_longest_side,
    width=lambda max_sequence_length: 2 * max_sequence_length,  # each side by itself
)
