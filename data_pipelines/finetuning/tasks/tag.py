"""A tag for every word.

Tags of words: named entities, chunks, parts of speech (Devlin et al., 2018, section 5.3).

The first piece of a word carries its tag; the others have no weight.
"""

import dataclasses

import numpy as np

from data_pipelines.corpora.conll import TaggedSentence, read_conll
from data_pipelines.corpora.labelled import RawExample
from data_pipelines.errors import UsageError
from data_pipelines.features import Feature
from data_pipelines.finetuning.tag_schemes import (
    REFUSE,
    SPAN_TAG,
    Scheme,
    bad_tags,
    respell,
    scheme_of,
    to_bio,
    usual_spelling,
)  # fmt: skip
from data_pipelines.finetuning.task import Task, count_tokens
from data_pipelines.pretraining.stages.windows import most_context, windows
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.joining import join_words
from data_pipelines.text.labels import sort_tags
from data_pipelines.text.tokenizer import Pieces


def align(pieces: Pieces, word_starts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the word of each piece, and 1 where the piece is the first of its word, both (L,).

    A piece belongs to the word in which it begins. One that covers several words leaves the later ones without a piece. Blank pieces
    before the first word, as of bytes, are no word's first.
    """
    if not pieces.ids:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spans = np.array(pieces.spans)
    words = np.searchsorted(word_starts, spans[:, 0], side="right") - 1
    words = np.maximum.accumulate(np.maximum(words, 0))
    begin = word_starts[0] if len(word_starts) else np.inf
    real = np.flatnonzero((spans[:, 1] > spans[:, 0]) & (spans[:, 1] > begin))
    _, first = np.unique(words[real], return_index=True)
    opens = np.zeros(len(words), np.int64)
    opens[real[first]] = 1
    return words, opens


class Tag(Task):
    """A tag for every word, from CoNLL files."""

    name = "tag"
    names_labels = True
    long_text = "windows"
    usual_column = "the last of a line"
    has_windows = True

    def check(self):
        for name in ("text_column", "label_column"):
            given = getattr(self.settings, name)
            if given is not None and not given.isdigit():
                raise UsageError(f"--{name}={given}: columns of CoNLL files have no names; give its position from 0.")
        if self.settings.text_pair_column is not None:
            raise UsageError("--text_pair_column: tagging reads one text only; leave it out.")

    def examples(self, path):
        columns = [None if c is None else int(c) for c in (self.settings.text_column, self.settings.label_column)]
        takes_spans = self.settings.tag_scheme != "none"
        sentences = [each.tags for each in read_conll(path, *columns)] if takes_spans else []
        spelling = usual_spelling(tag for tags in sentences for tag in tags)
        sentences = [respell(tags, spelling) for tags in sentences]
        scheme = scheme_of(tags for tags in sentences if all(map(SPAN_TAG.fullmatch, tags)))
        for sentence in read_conll(path, *columns):
            sentence = dataclasses.replace(sentence, tags=respell(sentence.tags, spelling))
            problem = self._problem(sentence)
            bad = [] if problem or not takes_spans else list(bad_tags(sentence.tags, scheme))
            if bad and self.settings.bad_tags == REFUSE:
                problem = self._bad_tag(sentence, bad[0].place, bad[0].reason, scheme)
            tags = to_bio(sentence.tags) if takes_spans and not problem else sentence.tags
            changed = sum(a != b for a, b in zip(tags, sentence.tags, strict=True))
            problem = problem or next(filter(None, map(self.refuses, tags)), None)
            value = {"words": sentence.words, "tags": tags, "changed": changed, "repaired": len(bad)}
            yield RawExample(f"{path}, line {sentence.lines[0]}", value, problem=problem)

    def _bad_tag(self, sentence: TaggedSentence, place: int, reason: str, scheme: Scheme) -> str:
        line = sentence.lines[min(place, len(sentence.lines) - 1)]
        where = f"{reason} on line {line}, as the tags are those of {scheme.name}"
        return f"impossible tag: {where}. Correct it, or give --bad_tags=repair"

    def _problem(self, sentence: TaggedSentence) -> str | None:
        if self.settings.tag_scheme == "none":
            return None
        for tag, line in zip(sentence.tags, sentence.lines, strict=True):
            if not SPAN_TAG.fullmatch(tag):
                return (
                    f"no tag of spans: {tag!r} on line {line}, expected O, B-… or I-…. Name another column with "
                    "--label_column, or take tags as they stand with --tag_scheme=none"
                )
        return None

    def labels_of(self, value):
        return value["tags"]

    def sort_labels(self, names):
        return sort_tags(names)

    def features(self, size):
        return {
            "token_ids": Feature((None,)),
            "segment_lengths": Feature((2,)),
            "labels": Feature((None,)),
            "label_weights": Feature((None,), "float32"),
            "word_ids": Feature((None,)),
            "example_ids": Feature(()),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        capacity = max_text_tokens(1, self.settings.max_seq_length)
        ids_of = {name: i for i, name in enumerate(self.labels)}
        joined = [join_words(value["words"]) for value in values]
        for index, value, (_, starts), pieces in zip(
            indices, values, joined, tokenizer.encode_batch([text for text, _ in joined]), strict=True
        ):
            is_long = len(pieces.ids) > capacity
            if is_long and self.leaves_out_long:
                counts["left_out_long"] += 1
                continue
            words, opens = align(pieces, starts)
            counts["words"] += len(starts)
            counts["changed_tags"] += value["changed"]
            counts["repaired_tags"] += value["repaired"]
            counts["words_without_piece"] += len(starts) - int(opens.sum())
            counts["in_windows"] += is_long and self.reads_windows
            if is_long and not self.reads_windows:
                counts["cut"] += 1
                counts["cut_words"] += int(opens[capacity:].sum())
                counts["cut_tokens"] += len(words) - capacity
                words, opens = words[:capacity], opens[:capacity]
            tags = np.array([ids_of[tag] for tag in value["tags"]])
            labels = np.where(opens, tags[words], 0) if len(words) else np.zeros(0, np.int64)
            for row in self._windows(pieces.ids[: len(words)], words, opens, labels, capacity):
                count_tokens(row["token_ids"], tokenizer, counts)
                counts["example_tokens"] += len(row["token_ids"]) + 2
                yield {**row, "example_ids": [index]}

    def _windows(self, ids: list[int], words, opens, labels, capacity: int):
        """Yields a row for each window of a text; a word counts in the one that shows most around it."""
        places = windows(len(ids), capacity, min(self.settings.doc_stride, max(1, capacity // 2)))
        for (start, length), most in zip(places, most_context(places, len(ids)), strict=True):
            part = slice(start, start + length)
            counted = opens[part] * most
            yield {
                "token_ids": ids[part],
                "segment_lengths": [length, 0],
                "labels": labels[part] * counted,
                "label_weights": counted,
                "word_ids": words[part],
            }

    @classmethod
    def describe(cls, settings, number, share):
        return [
            f"  words {number('words'):,} · without a piece of their own {share('words_without_piece', 'words')} · "
            f"tags turned into BIO {share('changed_tags', 'words')} · impossible tags that were repaired "
            f"{share('repaired_tags', 'words')}"
        ]

    @classmethod
    def render(cls, record, tokens, labels):
        shown = [tokens[i] for i in record["token_ids"][: record["segment_lengths"].sum()]]
        for place in np.flatnonzero(record["label_weights"][: len(shown)]):
            shown[place] += f"/{labels[record['labels'][place]]}"
        return " ".join(shown)
