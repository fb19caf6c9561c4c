"""Sets of vectors with a number each."""

import numpy as np

from data_pipelines.corpora.vector_sets import VectorSet
from data_pipelines.errors import DataError
from xmodels.tasks.classify_sets import read
from xmodels.tasks.regress.read import as_number, spread


class Reader(read.Reader):
    """Numbers of sets."""

    def label_names(self):
        return []

    def label_values(self, sets, labels):
        return np.array(numbers_of(sets), np.float32)

    def describe(self, source, labels):
        return spread(source.arrays["labels"])

    def task(self, config, data):
        return self.task_class(config)


def numbers_of(sets: list[VectorSet]) -> list[float]:
    """Returns the number of each set. Raises a DataError that names one whose label is no number."""
    numbers = [as_number(each.label) for each in sets]
    if None in numbers:
        each = sets[numbers.index(None)]
        raise DataError(f"{each.place}: no number: {each.label!r:.40}. Is --label_column the right field?")
    return numbers
