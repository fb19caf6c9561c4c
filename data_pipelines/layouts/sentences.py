"""One sentence a row, of two words or more (context2vec)."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import sentences


def stage(settings, vocabulary, rng):
    return sentences.single_sentences(settings.max_seq_length)


LAYOUT = segment_layout(stage, static=Static(), scores_all=True)
