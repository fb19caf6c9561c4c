"""Tags of words: named entities, chunks, parts of speech (Devlin et al., 2018, section 5.3).

The first piece of a word carries its tag; the others have no weight.
"""

import re

import numpy as np

from data_pipelines.corpora.conll import TaggedSentence, read_conll
from data_pipelines.corpora.labelled import RawExample
from data_pipelines.errors import UsageError
from data_pipelines.features import Feature
from data_pipelines.finetuning.task import Task, count_tokens
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.joining import join_words
from data_pipelines.text.labels import sort_tags
from data_pipelines.text.tokenizer import Pieces

SPAN_TAG = re.compile(r"O|[BIESMLU]-.+")


def to_bio(tags: list[str]) -> list[str]:
    """Tags of IOB1, BIOES, BMES and BILOU as BIO: a span begins with B-, and goes on with I-.

    A span that goes on without having begun, as all do in IOB1, begins where it is first seen (as in conlleval).
    """
    made, previous, open_span = [], None, False
    for tag in tags:
        if tag == "O":
            made.append(tag)
            previous, open_span = None, False
            continue
        prefix, _, kind = tag.partition("-")
        begins = prefix in "BSU" or kind != previous or not open_span
        made.append(f"{'B' if begins else 'I'}-{kind}")
        previous, open_span = kind, prefix not in "ESLU"
    return made


def align(pieces: Pieces, word_starts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The word of each piece, and 1 where the piece is the first of its word, both (L,).

    A piece belongs to the word in which it begins. One that covers several words leaves the later ones without a piece.
    """
    if not pieces.ids:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spans = np.array(pieces.spans)
    words = np.searchsorted(word_starts, spans[:, 0], side="right") - 1
    words = np.maximum.accumulate(np.maximum(words, 0))
    real = np.flatnonzero(spans[:, 1] > spans[:, 0])
    _, first = np.unique(words[real], return_index=True)
    opens = np.zeros(len(words), np.int64)
    opens[real[first]] = 1
    return words, opens


class Tag(Task):
    """A tag for every word, from CoNLL files."""

    name = "tag"
    names_labels = True

    def check(self):
        for name in ("text_column", "label_column"):
            given = getattr(self.settings, name)
            if given is not None and not given.isdigit():
                raise UsageError(f"--{name}={given}: columns of CoNLL files have no names; give its position from 0.")
        if self.settings.text_pair_column is not None:
            raise UsageError("--text_pair_column: tagging reads one text only; leave it out.")

    def examples(self, path):
        word, tag = (None if c is None else int(c) for c in (self.settings.text_column, self.settings.label_column))
        for sentence in read_conll(path, word, tag):
            problem = self._problem(sentence)
            tags = sentence.tags if problem or self.settings.tag_scheme == "none" else to_bio(sentence.tags)
            changed = sum(a != b for a, b in zip(tags, sentence.tags, strict=True))
            problem = problem or next(filter(None, map(self.refuses, tags)), None)
            value = {"words": sentence.words, "tags": tags, "changed": changed}
            yield RawExample(f"{path}, line {sentence.lines[0]}", value, problem=problem)

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
            is_cut = len(pieces.ids) > capacity
            counts["cut"] += is_cut
            if is_cut and self.leaves_out_long:
                counts["left_out_long"] += 1
                continue
            words, opens = align(pieces, starts)
            counts["words"] += len(starts)
            counts["changed_tags"] += value["changed"]
            counts["words_without_piece"] += len(starts) - int(opens.sum())
            counts["cut_words"] += int(opens[capacity:].sum())
            counts["cut_tokens"] += max(0, len(words) - capacity)
            tags = np.array([ids_of[tag] for tag in value["tags"]])
            ids, words, opens = pieces.ids[:capacity], words[:capacity], opens[:capacity]
            count_tokens(ids, tokenizer, counts)
            counts["example_tokens"] += len(ids) + 2
            yield {
                "token_ids": ids,
                "segment_lengths": [len(ids), 0],
                "labels": np.where(opens, tags[words], 0) if len(ids) else [],
                "label_weights": opens,
                "word_ids": words,
                "example_ids": [index],
            }
