"""Contiguous text in runs of different lengths (AWD-LSTM)."""

from data_pipelines.layout import STREAM
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import streams


def stage(settings, vocabulary, rng):
    return streams.stream_varied(settings.max_seq_length, settings.dupe_factor, streams.end_of(vocabulary), rng)


LAYOUT = segment_layout(
    stage,
    order=STREAM,
    width=lambda max_sequence_length: max_sequence_length + 1,  # a run also holds what comes next
    reads_verbatim=True,
    scores_all=True,
)
