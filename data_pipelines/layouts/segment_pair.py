"""Two segments, for next sentence prediction (BERT)."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages.pairs import pairs


def stage(settings, vocabulary, rng):
    return pairs(settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng)


LAYOUT = segment_layout(
    stage, num_segments=2, labels=("next_sentence_labels",), static=Static(), hides_share=True, takes_all=True, fills_rows=True,
    draws_documents=True,
)  # fmt: skip
