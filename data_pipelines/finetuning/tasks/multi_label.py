"""Any number of labels for a text or a pair.

The labels of a row stand in one column with a separator between them, or in a list of JSON lines.
"""

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.features import Feature
from data_pipelines.finetuning.shown import pair
from data_pipelines.finetuning.task import Task
from data_pipelines.finetuning.tasks.classify import Classify
from data_pipelines.text.labels import SEPARATOR, repeated_label, split_labels


class MultiLabel(Classify):
    """Any number of labels for a text or a pair of texts."""

    name = "multi_label"
    own_flags = ("label_separator",)
    label_lists = True

    @property
    def label_feature(self) -> Feature:
        return Feature((len(self.labels or ()),))

    def label_in(self, row):
        separator = SEPARATOR if self.settings.label_separator is None else self.settings.label_separator
        return list(split_labels(row.label, separator) if row.labels is None else row.labels)

    def label_problem(self, labels):
        if repeated := repeated_label(labels):
            return f"repeated label: {repeated}"
        return next(filter(None, map(self.refuses, labels)), None)

    def labels_of(self, value):
        return tuple(value["label"])

    def check_labels(self, labels, num_examples, inputs):
        if not labels:
            raise UsageError(f"{inputs}: no row has a label. Name their column with --label_column.")

    def record_of(self, labels):
        return [int(name in labels) for name in self.labels]

    @classmethod
    def label_bound(cls, num_labels):
        return 2  # each label of a text is 1 at its place

    warnings = Task.warnings

    @classmethod
    def render(cls, record, tokens, labels):
        names = [labels[place] for place in np.flatnonzero(record["labels"])]
        return f"[{' | '.join(names)}] {pair(record['token_ids'], record['segment_lengths'], tokens)}"
