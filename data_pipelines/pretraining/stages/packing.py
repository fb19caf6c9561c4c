"""How documents become examples, by name: the values of `--packing`."""

import dataclasses
import random
from collections.abc import Callable

import numpy as np

from data_pipelines.pretraining.stages.pairs import pairs, sentence_pairs
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.sentences import doc_sentences, full_sentences
from data_pipelines.pretraining.stages.streams import stream, stream_bidirectional
from data_pipelines.pretraining.stages.tokenize import mark
from data_pipelines.pretraining.stages.turns import TURNS, dialogue, parallel
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary


@dataclasses.dataclass(frozen=True)
class Packing:
    """A way to cut documents into examples.

    Attributes:
        stage: (settings, vocabulary, rng) -> the stage from documents of marked pieces to examples.
        labels: the features, one whole number each, that its examples carry.
        num_segments: how many segments an example may have.
        is_stream: examples continue one another, so their order is kept, and batches read them in rows.
        read_as: the `--input_format` that it needs, if any.
    """

    stage: Callable[..., Stage]
    labels: tuple[str, ...] = ()
    num_segments: int = 1
    is_stream: bool = False
    read_as: str | None = None

    def num_pieces(self, max_sequence_length: int) -> int:
        """The most pieces that a record holds."""
        if self.read_as == "parallel":
            return 2 * max_sequence_length  # each side by itself
        return max_sequence_length + self.is_stream  # a run also holds what comes next

    @property
    def is_running_text(self) -> bool:
        """Whether sentences that follow one another stand in one segment."""
        return self.num_segments == 1 and self.read_as is None

    @property
    def fits_static_masks(self) -> bool:
        """Whether Google's layout of one or two segments can hold its examples."""
        return not self.is_stream and self.read_as is None


def _segment_pair(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return pairs(settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng)


def _sentence_order(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return pairs(
        settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng,
        label="sentence_order_labels", negatives="swapped", lone_sentences="skip",
    )  # fmt: skip


def _sentence_pair(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return sentence_pairs(settings.max_seq_length, settings.dupe_factor, rng)


def _doc_sentences(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return doc_sentences(settings.max_seq_length, settings.dupe_factor)


def _full_sentences(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return full_sentences(settings.max_seq_length, mark([vocabulary[SEP]], [1]), settings.dupe_factor)


def _stream(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return stream(settings.max_seq_length, _end(vocabulary))


def _stream_bidirectional(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return stream_bidirectional(settings.max_seq_length, settings.max_seq_length // 2, _end(vocabulary), rng)


def _end(vocabulary: Vocabulary) -> np.ndarray:
    """What ends a document; BERT's vocabularies have nothing but `[SEP]` for it."""
    return mark([vocabulary[EOS if EOS in vocabulary else SEP]], [1])


def _dialogue(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return dialogue(settings.max_seq_length, settings.dupe_factor, rng)


def _parallel(settings, vocabulary: Vocabulary, rng: random.Random) -> Stage:
    return parallel(settings.max_seq_length)


PACKINGS = {
    "segment_pair": Packing(_segment_pair, ("next_sentence_labels",), 2),
    "sentence_pair": Packing(_sentence_pair, ("next_sentence_labels",), 2),
    "sentence_order": Packing(_sentence_order, ("sentence_order_labels",), 2),
    "full_sentences": Packing(_full_sentences),
    "doc_sentences": Packing(_doc_sentences),
    "stream": Packing(_stream, is_stream=True),
    "stream_bidirectional": Packing(_stream_bidirectional, ("follows_labels",), 3, is_stream=True),
    "dialogue": Packing(_dialogue, ("dialogue_labels",), TURNS, read_as="dialogue"),
    "parallel": Packing(_parallel, (), 2, read_as="parallel"),
}

# One or two segments in no order: what `[CLS] A [SEP] B [SEP]` frames.
FRAMED_AS_PAIRS = tuple(name for name, packing in PACKINGS.items() if packing.fits_static_masks)
