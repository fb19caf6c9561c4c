"""Two segments, swapped in half of the pairs (ALBERT)."""

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages.pairs import pairs

LABEL = "sentence_order_labels"


def stage(settings, vocabulary, rng):
    return pairs(
        settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng,
        label=LABEL, negatives="swapped", lone_sentences=settings.lone_sentences or "skip",
    )  # fmt: skip


LAYOUT = segment_layout(
    stage, num_segments=2, labels=(LABEL,), static=Static(marks_words=True), hides_share=True, takes_all=True,
    flags={"lone_sentences": "skip"},
)  # fmt: skip
