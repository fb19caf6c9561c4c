"""Contiguous text, for causal models and models with a memory (GPT, Transformer-XL)."""

from data_pipelines.layout import STREAM
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import streams


def stage(settings, vocabulary, rng):
    return streams.stream(settings.max_seq_length, streams.end_of(vocabulary))


LAYOUT = segment_layout(
    stage,
    order=STREAM,
    width=lambda max_sequence_length: max_sequence_length + 1,  # a run also holds what comes next
    reads_verbatim=True,
    scores_all=True,
)
