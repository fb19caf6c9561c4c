"""Turns, one of them from another dialogue in half of the examples (ERNIE)."""

import functools

from data_pipelines.corpora.dialogue import alternate
from data_pipelines.pretraining.segments import segment_layout
from data_pipelines.pretraining.stages import turns


def stage(settings, vocabulary, rng):
    return turns.dialogue(settings.max_seq_length, settings.dupe_factor, rng)


def joining(language: str):
    return functools.partial(alternate, blank="" if language == "zh" else " ")


LAYOUT = segment_layout(
    stage,
    num_segments=turns.TURNS,
    labels=("dialogue_labels",),
    facts=("first_role",),
    read_as="dialogue",
    joining=joining,
    refuses={"min_sentence_chars": "would take out turns, and then nothing says who speaks in the others"},
    hides_share=True,
)
