"""Contiguous text and two segments, forwards and backwards (XLNet)."""

from data_pipelines.layout import STREAM
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import streams
from data_pipelines.pretraining.stages.tokenize import mark

END = "<eod>"  # what ends a document in XLNet's vocabulary


def stage(settings, vocabulary, rng):
    length = settings.max_seq_length
    end = mark([vocabulary[END]], [1]) if END in vocabulary else streams.end_of(vocabulary)
    return streams.stream_bidirectional(length, length // 2, end, rng)


LAYOUT = segment_layout(
    stage,
    num_segments=3,
    labels=("follows_labels", "is_reversed"),
    order=STREAM,
    width=lambda max_sequence_length: max_sequence_length + 1,
)
