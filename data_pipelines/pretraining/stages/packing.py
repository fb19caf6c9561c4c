"""The stages that cut documents of marked pieces into examples, one for each of `data_pipelines.packings.PACKINGS`."""

import random

import numpy as np

from data_pipelines.pretraining.stages import pairs, paragraphs, sentences, streams, turns
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.tokenize import mark
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary


def packing_stage(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    """The stage of `settings.packing`: the function of that name in this file."""
    return globals()[settings.packing](settings, vocabulary, rng)


def segment_pair(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return pairs.pairs(settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng)


def sentence_order(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return pairs.pairs(
        settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng,
        label="sentence_order_labels", negatives="swapped", lone_sentences=settings.lone_sentences or "skip",
    )  # fmt: skip


def sentence_pair(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return pairs.sentence_pairs(settings.max_seq_length, settings.dupe_factor, rng)


def doc_sentences(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return sentences.doc_sentences(settings.max_seq_length, settings.dupe_factor)


def full_sentences(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    separator = mark([vocabulary[SEP]], [1])
    return sentences.full_sentences(settings.max_seq_length, separator, settings.dupe_factor)


def stream(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return streams.stream(settings.max_seq_length, _end(vocabulary))


def stream_bidirectional(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    length = settings.max_seq_length
    end = mark([vocabulary["<eod>"]], [1]) if "<eod>" in vocabulary else _end(vocabulary)  # XLNet's vocabulary has it
    return streams.stream_bidirectional(length, length // 2, end, rng)


def dialogue(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return turns.dialogue(settings.max_seq_length, settings.dupe_factor, rng)


def parallel(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return turns.parallel(settings.max_seq_length)


def paragraph(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return paragraphs.paragraphs(settings.max_seq_length, settings.dupe_factor, rng)


def _end(vocabulary: Vocabulary) -> np.ndarray:
    """What ends a document; BERT's vocabularies have nothing but `[SEP]` for it."""
    return mark([vocabulary[EOS if EOS in vocabulary else SEP]], [1])
