"""Rows of one or two texts with any number of labels: side by side in the column of a table, a list in JSON lines, or records."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.class_weights import label_weights
from data_pipelines.finetuning.row_checks import unknown_label
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.labels import SEPARATOR, repeated_label, sort_labels, split_labels
from xmodels.tasks.base.read import drop_unusable
from xmodels.tasks.base.teaching import TaughtReader
from xmodels.tasks.classify.thresholds import THRESHOLD
from xmodels.tasks.multi_label.distillation import DistilledMultiLabel
from xmodels.training.watching.progress import print_status


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts, the labels that suit them, perhaps none, file and line, and what stands there."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    place: str
    label: str | None


def read_rows(path: str, columns: Columns, separator: str, bad_rows: list[BadRow] | None = None) -> list[Labelled]:
    """Returns the rows of a table; an empty label stands for none. A label of JSON lines may be a list, whose items are not
    parted.

    Args:
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: a row has an empty text or names a label twice; names file and line.
    """
    found = []
    for row in read_table(path, columns, bad_rows=bad_rows, may_be_empty=True, label_lists=True):
        labels = split_labels(row.label, separator) if row.labels is None else row.labels
        found.append(Labelled(row.texts, labels, f"{path}, line {row.line}", row.label))
    if not (found := drop_unusable(found, bad_rows, problem)):
        raise DataError(f"{path}: holds no row that can be used.")
    return found


def problem(row: Labelled) -> str | None:
    """Returns why a row cannot be used; None where it can."""
    if not all(text.strip() for text in row.texts):
        return "the text is empty"
    return repeated_label(row.labels, row.label)


def label_rows(rows: Sequence[Labelled], labels: Sequence[str]) -> np.ndarray:
    """Returns 1 for each label that a row has: float32 (N, C). Raises a DataError where training did not have one."""
    places, found = {name: place for place, name in enumerate(labels)}, np.zeros((len(rows), len(labels)), np.float32)
    for number, row in enumerate(rows):
        for label in row.labels:
            if label not in places:
                raise unknown_label(row.place, label, labels)
            found[number, places[label]] = 1.0
    return found


class Reader(TaughtReader):
    """Labels of single texts, or of pairs."""

    records = "multi_label"
    distilled_class = DistilledMultiLabel

    def __init__(self, name, options):
        super().__init__(name, options)
        if options.label_softmax and options.teacher:
            raise UsageError(
                "--label_softmax: a teacher's answers are learnt by each label for itself. Leave out one of it and --teacher."
            )

    def read_rows(self, path, columns, bad_rows):
        return read_rows(path, columns, self.separator, bad_rows)

    def label_names(self, path, rows):
        labels = sort_labels({label for row in rows for label in row.labels})
        if not labels:
            raise DataError(f"{path}: no row has a label. Name their column with --label_column.")
        if max(len(row.labels) for row in rows) < 2:
            print_status(f"Warning: no row of {path} has several labels; is --label_separator={self.separator} right?")
        return labels

    def label_values(self, path, rows, labels):
        return label_rows(rows, labels)

    def describe(self, values, labels):
        return f"{values.shape[1]} labels, {values.sum() / len(values):.2f} on average"

    @property
    def separator(self) -> str:
        """What stands between labels: of records as they were made, unless the flag says otherwise."""
        given, records = self.options.label_separator, self.options.data_dir
        if given is None and records:
            given = Manifest.read(records).settings.others.get("label_separator")
        return SEPARATOR if given is None else given

    def task(self, config, data):
        weights = label_weights(self.options.class_weights, data.labels, data.source.arrays["labels"])
        given = (config, data.labels, self.reading, weights, self.separator)
        if self.options.label_softmax:
            labels_of_text = max(1.0, float(np.mean(np.sum(data.source.arrays["labels"], axis=-1))))
            return self.task_class(*given, softmax=True, threshold=THRESHOLD / labels_of_text)
        if not self.learns_answers:
            return self.task_class(*given)
        numbers = {"temperature": self.options.distill_temperature, "share": self.options.distill_share}
        return self.distilled_class(*given, **numbers)

    def arrays_of_teacher(self, answers, labels):
        found = [[answer.probabilities[label] for label in labels] for answer in answers]
        return {"teacher_probabilities": np.array(found, "float32")}
