"""The base of layouts, and their lookup by name: the values of `create_pretraining_data --packing`.

Each file of `data_pipelines/layouts` is one layout. To add one, add a file that defines `LAYOUT`; its docstring is its help.
Names and summaries are read off the files, so that a command line that only shows its help imports nothing heavy.
"""

import dataclasses
import importlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from data_pipelines.errors import UsageError
from data_pipelines.features import Features
from data_pipelines.options.declaration import modules_of, summary_of

FREE, STREAM = "free", "stream"  # how records are ordered
PACKAGE = f"{__package__}.layouts"
# Which records are wrong, bool (N,), and what to say of one of them.
Faults = Iterable[tuple[Any, Callable[[int], str]]]


class Batch(Protocol):
    """Examples that a stage made, such as `stages.example.Examples`."""

    def __len__(self) -> int: ...

    def shuffled(self, seed: int) -> "Batch":
        """Returns the same examples in another order."""

    def batches(self, size: int) -> Iterator["Batch"]:
        """Returns the same examples in batches of at most `size`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFormat:
    """How records of one kind become arrays. Layouts are such formats; so are Google's static records and labelled ones.

    Attributes:
        lengths: parsed features (N, ...) -> the tokens of each example with its special tokens, int64 (N,). It is called in a graph.
        measured: the features that `lengths` reads.
        width: the maximum sequence length -> what the free first axis of a feature is padded to. Further axes are fixed: a feature of
            words with their characters is (None, 50).
        order: "free", or "stream" where examples continue one another: batches read them in rows then.
        ids: the features that hold ids of the vocabulary. They are checked against it, and counted.
        faults: (values of some records, their settings) -> what may be wrong with them beside ids.
        show: (one record, the tokens by id) -> text, where `inspect_data` shows records without an objective; else None.
    """

    lengths: Callable[[Mapping[str, Any]], Any]
    measured: tuple[str, ...] = ("segment_lengths",)
    width: Callable[[int], int] = lambda max_sequence_length: max_sequence_length
    order: str = FREE
    ids: tuple[str, ...] = ("token_ids",)
    faults: Callable[[Mapping[str, Any], Any], Faults] = lambda values, settings: ()
    show: Callable[[Mapping[str, Any], Sequence[str]], str] | None = None

    @property
    def is_stream(self) -> bool:
        """Whether examples continue one another, so that their order must be kept."""
        return self.order == STREAM


@dataclasses.dataclass(frozen=True)
class Static:
    """How Google's layout of masked records holds the examples of a layout of one or two segments.

    Attributes:
        marks_words: whether records also say where words begin, as ALBERT's do.
        separates_inside: whether `[SEP]` may stand inside a segment, where it is not to be hidden.
    """

    marks_words: bool = False
    separates_inside: bool = False


@dataclasses.dataclass(frozen=True)
class Merge:
    """A global reduce: every part of the corpus is collected into one file, then every shard is made from the files of all parts.

    Both steps are functions of their arguments, so that bytes depend on neither workers nor interruptions, and work in bounded memory.

    Attributes:
        collect: (batches of the stage, path, settings, statistics) -> writes the file of one part.
        shard: (the files of all parts, index of the shard, settings) -> its batches, in their final order.
    """

    collect: Callable[[Iterator[Any], str, Any, Counter], None]
    shard: Callable[[Sequence[str], int, Any], Iterator[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout(RecordFormat):
    """What a record of one kind holds, how documents become it, and how it becomes arrays.

    `settings` are those of `create_pretraining_data`, `pretraining.settings.Settings`.

    Attributes:
        features: settings -> the features of a record.
        stage: (settings, vocabulary, random generator) -> the stage that cuts tokenized documents into batches of examples.
        columns: (settings, batch, statistics) -> the columns of its records, which it also counts.
        merge: the global reduce between the stage and the columns; None where a part of the corpus gives a shard.
        labels: the features, one whole number each, that examples carry.
        num_segments: how many segments of tokens an example may have; 0 where examples are something else.
        token_labels: features with a number for each token that examples carry beside starts of words.
        static: how Google's layout holds the examples; None where it does not fit.
        numbers: the dataclass of the numbers of the layout, which `--set` gives; its docstring says what they mean. None without any.
        read_as: the `--input_format` that the layout needs, if any.
        joining: language -> what becomes of cleaned elements of a document that are not sentences in a row; None where they are.
        flags: the flags that only this layout reads, each with the value that holds where it is not given.
        refuses: flags that contradict the layout, each with the reason.
        reads_verbatim: whether texts suit that are read as they are, without sentences.
        hides_share: whether systems hide the share of tokens that `--masked_lm_prob` names.
        scores_all: whether each token is predicted, so that there are as many predictions as tokens.
        takes_all: whether all of a text comes into examples, but for the ends of long sentences.
        fills_rows: whether examples are about as long as rows.
        draws_documents: whether examples need other documents of the same shard.
        keeps_words: whether the ids that its stage is given tell words apart that the vocabulary lacks (`Vocabulary.numbered`).
        report: what the summary of records says of them, as lines; by default about words and labels.
    """

    features: Callable[[Any], Features]
    stage: Callable[[Any, Any, random.Random], Callable[[Iterator[Any]], Iterator[Any]]]
    columns: Callable[[Any, Any, Counter], Mapping[str, Any]]
    merge: Merge | None = None
    labels: tuple[str, ...] = ()
    num_segments: int = 0
    token_labels: tuple[str, ...] = ()
    static: Static | None = None
    numbers: type | None = None
    read_as: str | None = None
    joining: Callable[[str], Callable[[list[str]], list[str]]] | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    refuses: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reads_verbatim: bool = False
    hides_share: bool = False
    scores_all: bool = False
    takes_all: bool = False
    fills_rows: bool = False
    draws_documents: bool = False
    keeps_words: bool = False
    report: Callable[[Any], list[str]] | None = None

    @property
    def is_framed(self) -> bool:
        """Whether examples are one or two segments in no order: what `[CLS] A [SEP] B [SEP]` frames."""
        return self.static is not None


def names() -> tuple[str, ...]:
    """Returns the names of all layouts, sorted. Imports none of them."""
    return tuple(sorted(modules_of(PACKAGE)))


def find(name: str) -> Layout:
    """Returns the layout that `layouts/<name>.py` defines. Raises a UsageError that lists the known names."""
    if name not in names():
        raise UsageError(f"--packing={name}: unknown. Known: {', '.join(names())}.")
    return importlib.import_module(f"{PACKAGE}.{name}").LAYOUT


def find_or_none(name: str | None) -> Layout | None:
    """Returns the layout of a manifest or of flags that may name none; None for None."""
    return None if name is None else find(name)


def summaries() -> dict[str, str]:
    """Returns what each layout is: the first paragraph of its file. Reads the files and imports none of them."""
    return {name: summary_of(f"{PACKAGE}.{name}") for name in names()}
