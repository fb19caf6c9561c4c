"""Two single sentences, for next sentence prediction."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages.pairs import sentence_pairs


def stage(settings, vocabulary, rng):
    return sentence_pairs(settings.max_seq_length, settings.dupe_factor, rng)


LAYOUT = segment_layout(stage, num_segments=2, labels=("next_sentence_labels",), static=Static(), hides_share=True)
