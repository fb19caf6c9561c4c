"""Masks examples before training and lays them out as Google's script does."""

import random
from collections import Counter

import numpy as np

from data_pipelines.layout import Static
from data_pipelines.pretraining.segments import count, open_words
from data_pipelines.pretraining.stages.draws import stream
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.static_masks import Hidden, budgets, mask_ngrams_statically, mask_statically
from data_pipelines.pretraining.stages.tokenize import ids_of, word_starts_of
from data_pipelines.records.encoding import Columns
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, Vocabulary


class StaticMasking:
    """Masks examples and lays them out as Google's script does.

    Args:
        settings: the flags of `create_pretraining_data`.
        static: how the layout of the examples fits.
        seed: any text; equal seeds draw equal masks.
    """

    def __init__(self, settings, static: Static, vocabulary: Vocabulary, seed: str):
        self.settings, self.static, self.vocabulary = settings, static, vocabulary
        self.rng = random.Random(seed)
        self.random = stream(self.rng.getrandbits(32))

    def columns(self, examples: Examples, statistics: Counter) -> Columns:
        """Returns the columns of records with fixed lengths, and counts them."""
        count(examples, open_words(examples), statistics)
        settings, vocabulary = self.settings, self.vocabulary
        shape = len(examples), settings.max_seq_length
        lengths = examples.lengths()
        place = np.arange(shape[1], dtype=np.int32)
        # Each segment ends with [SEP]; [CLS] stands before the first.
        ends = np.cumsum(lengths + 1, axis=1)
        total = ends[:, -1:] + 1
        ids = np.full(shape, vocabulary[PAD], np.int32)
        inside = (place > 0) & (place < total)
        for end in ends.T:
            inside[np.arange(len(ids)), end] = False
            ids[np.arange(len(ids)), end] = vocabulary[SEP]
        ids[:, 0] = vocabulary[CLS]
        flat = examples.flat
        ids[inside] = pieces = ids_of(flat)
        # As in Google's code, a second segment that begins inside a word belongs to the last word of the first.
        word_start, maskable = np.zeros(shape, bool), inside
        word_start[inside] = word_starts_of(flat)
        boundaries = word_start | ((place < total) & ~inside)
        word_start[:, 1] = True
        if self.static.separates_inside:
            maskable[inside] = pieces != vocabulary[SEP]
        segments = (place > ends[:, :1]) & (place < total) if len(ends.T) > 1 else np.zeros(shape, bool)
        hidden = self._hide(ids, word_start, maskable, total[:, 0])
        statistics["predictions"] += int(hidden.counts.sum())
        slots = settings.max_predictions_per_seq
        used = np.arange(slots) < hidden.counts[:, None]
        labels = [*examples.labels.values(), np.zeros(len(examples), np.int64)][0]

        return {
            "input_ids": hidden.ids,
            "input_mask": (place < total).astype(np.uint8),
            "segment_ids": segments.astype(np.uint8),
            "masked_lm_positions": hidden.positions,
            "masked_lm_ids": hidden.labels,
            "masked_lm_weights": used.astype(np.float32),
            "next_sentence_labels": labels[:, None],
            **({"token_boundary": boundaries.view(np.uint8)} if self.static.marks_words else {}),
        }

    def _hide(self, ids, word_start, maskable, lengths) -> Hidden:
        settings, vocabulary = self.settings, self.vocabulary
        slots = settings.max_predictions_per_seq
        wanted = budgets(lengths, settings.masked_lm_prob, slots)
        if settings.ngram > 1:
            return self._hide_ngrams(ids, word_start, maskable, lengths, wanted)
        units = word_start if settings.do_whole_word_mask else np.ones_like(word_start)
        replacement = vocabulary[MASK], len(vocabulary)
        whole_fates = settings.wwm_replace_unit == "word"
        return mask_statically(ids, units, maskable, wanted, replacement, slots, self.random, whole_fates)

    def _hide_ngrams(self, ids, word_start, maskable, lengths, wanted) -> Hidden:
        settings, everything = self.settings, (self.vocabulary[MASK], range(len(self.vocabulary)))
        masked = ids.copy()
        positions = np.zeros((len(ids), settings.max_predictions_per_seq), np.int64)
        counts = np.zeros(len(ids), np.int64)
        for row, length in enumerate(lengths):
            starts = [bool(s) if m else None for s, m in zip(word_start[row, :length], maskable[row], strict=False)]
            tokens, places = mask_ngrams_statically(
                ids[row, :length].tolist(), starts, everything, int(wanted[row]), settings.do_whole_word_mask, self.rng,
                self.random, settings.ngram, settings.favor_shorter_ngram,
            )  # fmt: skip
            masked[row, :length] = tokens
            positions[row, : len(places)] = places
            counts[row] = len(places)
        used = np.arange(positions.shape[1]) < counts[:, None]
        return Hidden(masked, positions, np.where(used, np.take_along_axis(ids, positions, axis=1), 0), counts)
