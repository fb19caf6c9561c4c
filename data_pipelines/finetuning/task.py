"""What a kind of labelled data must say, so that `finetuning_data` can make records of it."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from data_pipelines.corpora.files import expand
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.labelled import RawExample
from data_pipelines.corpora.tables import BadRow
from data_pipelines.features import Feature
from data_pipelines.finetuning.row_checks import check_labels
from data_pipelines.options.create_finetuning_data import RecordOptions
from data_pipelines.records.encoding import Columns as RecordColumns
from data_pipelines.text.framing import shorten
from data_pipelines.text.kinds import open_for_records
from data_pipelines.text.tokenizer import Pieces, Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN

WINDOW_NUMBERS = {"max_query_length": 64, "doc_stride": 128}  # those of Google's run_squad.py
Number, Share = Callable[[str], int], Callable[[str, str], str]
Row = Mapping[str, Sequence[int] | Sequence[float] | np.ndarray]  # one record: name -> its values, flat


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(RecordOptions):
    """Everything that shapes the records."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Settings":
        """Returns the settings among other values."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})

    def columns(self) -> Columns:
        return Columns(self.text_column, self.text_pair_column, self.label_column)


class Task:
    """One kind of labelled data.

    Args:
        settings: the flags.
        labels: the names of the labels where they are known; None finds them in the data.
    """

    name: str
    long_text = "cut"  # what happens to it unless the flag says otherwise
    needs_vocabulary = True  # whether --vocab_file must be given
    usual_column: str | None = None  # where labels stand unless a flag says it; None: where tables usually have them
    names_labels = False  # whether labels are names that get ids
    own_flags: ClassVar[tuple[str, ...]] = ()  # of `create_finetuning_data`, that only this task has
    has_windows = False  # whether a long text can become several records
    texts_are_counted = False  # whether texts are counted rather than examples, of those that are too long

    def __init__(self, settings: Settings, labels: list[str] | None = None):
        self.settings = settings
        self.labels = labels

    def check(self) -> None:
        """Raises a UsageError where the settings cannot work for this task."""

    @classmethod
    def window_numbers(cls, settings: Settings) -> dict[str, int]:
        """Returns `max_query_length` and `doc_stride`, those that were not given among them."""
        return {name: getattr(settings, name) or usual for name, usual in WINDOW_NUMBERS.items()}

    def paths(self) -> list[str]:
        """Returns the files of --input_file, in the order in which they are read."""
        return expand(self.settings.input_file)

    def open_tokenizer(self) -> Tokenizer:
        """Returns what cuts the texts into pieces."""
        settings = self.settings
        return open_for_records(settings.vocab_file, settings.tokenizer, settings.do_lower_case)

    def examples(self, path: str) -> Iterator[RawExample]:
        """Reads all examples of a file, also those with a problem."""
        raise NotImplementedError

    def bad_rows(self) -> list[BadRow] | None:
        """Returns where a reader of tables puts rows that it cannot read; None where such a row is an error."""
        return [] if self.settings.on_bad_row == "skip" else None

    def labels_of(self, value: dict[str, Any]) -> Iterable[str]:
        """Returns the labels of one example, to be counted; empty for tasks without."""
        return ()

    def sort_labels(self, names: Iterable[str]) -> list[str]:
        """Returns the labels in the order of their ids."""
        return sorted(names)

    def check_labels(self, labels: list[str], num_examples: int, inputs: str) -> None:
        """Raises an error, as `row_checks.check_labels`, where the labels that were found cannot be meant.

        Args:
            inputs: the files, for the message.
        """
        check_labels(inputs, labels, num_examples, self.settings.label_column or self.usual_column)

    def size_of(self, value: dict[str, Any]) -> int:
        """Returns how many texts the example chooses or ranks; the largest one gives the records their shape."""
        return 0

    def text_of(self, value: dict[str, Any]) -> str | None:
        """Returns what makes two examples the same text, where that is worth a count."""
        return None

    def features(self, size: int) -> dict[str, Feature]:
        """Returns what a record holds.

        Args:
            size: choices or candidates a record.
        """
        raise NotImplementedError

    def encode(
        self, indices: list[int], values: list[dict[str, Any]], tokenizer: Tokenizer, size: int, counts: Counter
    ) -> Iterator[Row]:
        """Returns the records of some examples.

        Args:
            indices: the place of each example in the input.
            counts: what is seen is added here: examples, tokens, unknown_tokens, cut, left_out_long, and more by task.
        """
        raise NotImplementedError

    def record_size(self, size: int) -> int:
        """Returns the texts a record holds, given the most that an example has."""
        return size

    @classmethod
    def describe_length(cls, settings, number: Number, share: Share) -> list[str]:
        """Returns lines about texts that are too long, as `describe`."""
        line = f"  longer than --max_seq_length={settings.max_sequence_length}"
        whole = "texts" if cls.texts_are_counted else "accepted"
        if number("left_out_long"):
            return [f"{line}: {share('cut', whole)}, left out {number('left_out_long'):,}"]
        if number("in_windows"):
            return [f"{line}, in windows: {share('in_windows', whole)}"]
        tokens = f", cut by {number('cut_tokens'):,} tokens" if number("cut") else ""
        return [f"{line}: {share('cut', whole)}{tokens}"]

    @classmethod
    def describe(cls, settings, number: Number, share: Share) -> list[str]:
        """Returns lines about what only such records have.

        Args:
            settings: of the manifest.
            number: the count of a name.
            share: a count and its share of another one, as text.
        """
        return []

    @classmethod
    def warnings(cls, counts: Mapping[str, int], names: Sequence[str]) -> Iterable[str]:
        """Yields what is likely to go wrong, given the counts and the names of the labels."""
        return ()

    @classmethod
    def label_bound(cls, num_labels: int) -> int:
        """Returns the number that `labels` of a record are below."""
        return num_labels

    @classmethod
    def render(cls, record: Mapping[str, np.ndarray], tokens: list[str], labels: list[str]) -> str:
        """Returns a record as text.

        Args:
            record: its features; those of free length may be padded.
            tokens: the vocabulary.
            labels: the names of the labels, if they have any.
        """
        raise NotImplementedError

    def refuses(self, label: str) -> str | None:
        """Returns the problem with a label, if there is one."""
        if self.labels is None or label in self.labels:
            return None
        return f"unknown label: {label!r}. Known: {', '.join(self.labels[:20])}. Correct it, or change --labels"

    @property
    def leaves_out_long(self) -> bool:
        return (self.settings.on_long_text or self.long_text) == "drop"

    @property
    def reads_windows(self) -> bool:
        """Whether a long text becomes several records, of tasks that can."""
        return (self.settings.on_long_text or self.long_text) == "windows"


def cut(first: Pieces, second: Pieces | None, capacity: int, counts: Counter) -> tuple[list[int], list[int], bool]:
    """Returns the ids of one or two texts, shortened to `capacity` pieces in all, and whether anything was cut."""
    a, b = first.ids, [] if second is None else second.ids
    keep = shorten(len(a), len(b), capacity)
    is_cut = keep != (len(a), len(b))
    counts["cut"] += is_cut
    counts["cut_tokens"] += len(a) + len(b) - sum(keep)
    return a[: keep[0]], b[: keep[1]], is_cut


def label_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Returns how often each label occurs, the most frequent first."""
    found = {name.partition("=")[2]: count for name, count in counts.items() if name.startswith("label=")}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def count_tokens(ids: Sequence[int], tokenizer: Tokenizer, counts: Counter) -> None:
    counts["tokens"] += len(ids)
    unknown = tokenizer.vocabulary.roles.get(UNKNOWN)
    if unknown is not None:
        counts["unknown_tokens"] += ids.count(unknown)


def columns_of(rows: list[Row], features: Mapping[str, Feature]) -> RecordColumns:
    """Records as `encode_examples` wants them: the values of all side by side, and the length of each."""
    columns = {}
    for name, feature in features.items():
        dtype = np.float32 if feature.dtype == "float32" else np.int64
        values = [np.asarray(row[name], dtype).ravel() for row in rows]
        columns[name] = np.concatenate(values), np.array([len(v) for v in values])
    return columns
