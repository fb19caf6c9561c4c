"""A task is an objective that also has an answer. `task.py` of a task defines one; it is model code, so it says `keras.ops` only."""

from typing import ClassVar

from data_pipelines.features import Features
from xmodels.objectives.base import Objective


class Task(Objective):
    """An objective with `predict` and the signature of its answer.

    Subclasses take (config, labels, reading): the configuration of the backbone, the names of the labels in the order of
    their ids, and how the network reads texts, None where it reads none.
    """

    title: ClassVar[str]  # of the model card
    signature: ClassVar[Features] = {}
    names_labels: ClassVar[bool] = True  # whether its answers are labels that have names

    @property
    def needs(self) -> Features:
        """The labels too stand in the examples, so what it reads is all that it needs."""
        return self.reads

    def predict(self, outputs):
        """What the outputs of the backbone mean: a dictionary of tensors, named as in `signature`."""
        raise TypeError(f"{type(self).__name__} must define `predict`.")
