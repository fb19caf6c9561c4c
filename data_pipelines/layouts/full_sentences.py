"""Whole sentences up to max_seq_length, across documents (RoBERTa)."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import sentences
from data_pipelines.pretraining.stages.tokenize import mark
from data_pipelines.text.vocabulary import SEP


def stage(settings, vocabulary, rng):
    separator = mark([vocabulary[SEP]], [1])
    return sentences.full_sentences(settings.max_seq_length, separator, settings.dupe_factor)


LAYOUT = segment_layout(stage, static=Static(separates_inside=True), hides_share=True, takes_all=True, fills_rows=True)
