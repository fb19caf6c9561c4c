"""A task is an objective that also has an answer."""

from typing import ClassVar

from data_pipelines.features import Features
from xmodels.objectives.base import Objective


class Task(Objective):
    """An objective with `predict` and the signature of its answer."""

    signature: ClassVar[Features] = {}
    names_labels: ClassVar[bool] = True  # whether its answers are labels that have names

    def predict(self, outputs):
        """What the outputs of the backbone mean: a dictionary of tensors, named as in `signature`."""
        raise TypeError(f"{type(self).__name__} must define `predict`.")
