"""Layouts whose examples are one or several segments of token ids, clean: framed and masked in the graph."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from data_pipelines.features import IGNORED, Feature, Features
from data_pipelines.layout import Layout
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.tokenize import CAPITAL, LETTER, REPEATABLE, REPEATED, ids_of, starts_of
from data_pipelines.records import lengths
from data_pipelines.records.encoding import Columns


def segment_layout(
    stage: Callable, num_segments: int = 1, labels: tuple[str, ...] = (), facts: tuple[str, ...] = (),
    token_labels: tuple[str, ...] = (), **values,
) -> Layout:  # fmt: skip
    """Returns the layout of examples of token ids.

    Args:
        facts: features, one whole number each, that examples carry beside labels, and that older records may lack.
        stage, num_segments, labels, token_labels, values: as of `Layout`.
    """

    def features(settings) -> Features:
        return {
            "token_ids": Feature((None,)),
            "word_start": Feature((None,)),
            **{name: Feature((None,)) for name in (*settings.unit_lexicons, *token_labels)},
            "segment_lengths": Feature((max(2, num_segments),)),
            **{name: Feature(()) for name in (*labels, *facts)},
        }

    def columns(settings, examples: Examples, statistics: Counter) -> Columns:
        starts = open_words(examples)
        count(examples, starts, statistics)
        return segment_columns(examples, starts, settings.unit_lexicons, token_labels)

    if values.get("static"):
        values["faults"] = _too_long
    return Layout(**{
        "features": features, "stage": stage, "columns": columns, "labels": labels, "num_segments": num_segments,
        "token_labels": token_labels, "lengths": lengths.of_framed_segments, **values,
    })  # fmt: skip


def open_words(examples: Examples, name: str = "word_start") -> np.ndarray:
    """Returns where in `Examples.flat` words or other units open, bool; of a word that truncation cut, what is left opens the
    segment."""
    starts = starts_of(examples.flat, name)
    lengths = examples.lengths().ravel()
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return starts


def count(examples: Examples, starts: np.ndarray, statistics: Counter) -> None:
    """Counts examples, tokens, labels and words."""
    statistics["examples"] += len(examples)
    statistics["example_tokens"] += len(starts) + len(examples) + int((examples.lengths() > 0).sum())
    for name, values in examples.labels.items():
        for value, number in enumerate(np.bincount(values).tolist()):
            if number:
                statistics[f"{name}={value}"] += number
    statistics["words"] += int(np.count_nonzero(starts))
    # A word has several tokens where an opening token is followed by a continuing one.
    statistics["long_words"] += int(np.count_nonzero(starts[:-1] & ~starts[1:]))


def segment_columns(examples: Examples, starts: np.ndarray, units=(), token_labels=()) -> Columns:
    """Returns clean ids, starts of words and other units, and labels of tokens; special tokens, masks and padding come in the
    graph."""
    lengths = examples.lengths()
    both = np.pad(lengths, [(0, 0), (0, max(0, 2 - lengths.shape[1]))])
    rows = lengths.sum(axis=1)
    return {
        "token_ids": (ids_of(examples.flat), rows),
        "word_start": (starts.view(np.uint8), rows),
        **{name: (open_words(examples, name).view(np.uint8), rows) for name in units},
        **{name: (token_labels_of(examples, name), rows) for name in token_labels},
        "segment_lengths": both,
        **{name: values[:, None] for name, values in examples.labels.items()},
    }


def token_labels_of(examples: Examples, name: str) -> np.ndarray:
    """Returns a label for each of `Examples.flat`, uint8 (T',): 1 where a sentence begins, the word is written with a capital, or the
    token is repeated, else 0; 2 where that is not asked."""
    if name == "sentence_start":
        return open_words(examples, name).view(np.uint8)
    label, asked = {"capital_labels": (CAPITAL, LETTER), "repeated_labels": (REPEATED, REPEATABLE)}[name]
    return np.where(examples.flat & asked > 0, examples.flat & label > 0, IGNORED).astype(np.uint8)


def _too_long(values, settings):
    """Yields the records of one or two segments that are longer than rows, once they are framed."""
    lengths, width = values["segment_lengths"], settings.max_sequence_length
    total = lengths.sum(axis=1) + np.where(lengths[:, 1] > 0, 3, 2)
    yield total > width, lambda n: f"{total[n]} tokens with its special tokens, more than max_seq_length={width}"
