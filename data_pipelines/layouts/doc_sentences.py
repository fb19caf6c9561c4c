"""Whole sentences up to max_seq_length, within a document (RoBERTa)."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import sentences


def stage(settings, vocabulary, rng):
    return sentences.doc_sentences(settings.max_seq_length, settings.dupe_factor)


LAYOUT = segment_layout(stage, static=Static(), hides_share=True, takes_all=True)
