"""A number for a text or a pair.

The similarity of two texts is one (Devlin et al., 2018, section 4.1: STS-B).
"""

import math

from data_pipelines.features import Feature
from data_pipelines.finetuning.task import Task
from data_pipelines.finetuning.tasks.classify import Classify


class Regress(Classify):
    """A number for a text or a pair of texts, such as how similar they are."""

    name = "regress"
    names_labels = False
    label_feature = Feature((), "float32")

    def label_problem(self, label):
        try:
            fits = math.isfinite(float(label))
        except ValueError:
            fits = False
        return None if fits else f"no number: {label!r}. Is the label column the right one? Name it with --label_column"

    def labels_of(self, value):
        return ()

    def record_of(self, label):
        return [float(label)]

    warnings = Task.warnings
