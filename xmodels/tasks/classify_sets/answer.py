"""Labels of sets of vectors, with their probabilities."""

import numpy as np

from data_pipelines.corpora.vector_sets import BadSet, as_points, pad_sets, read_sets
from data_pipelines.errors import DataError, UsageError
from xmodels.tasks.base import answer
from xmodels.tasks.base.forms import LabelForms
from xmodels.tasks.classify.answer import predictions_of


class SetPredictor(answer.Predictor):
    """Answers sets: arrays (L, D), or lists of lists."""

    unit = "set"

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return self.backbone.config.input_dim

    def example(self):
        return np.zeros((1, self.width), np.float32)

    def features(self, inputs):
        """Returns points float32 (N, L, D), padding_mask bool (N, L)."""
        return pad_sets([self._checked(index, each) for index, each in enumerate(inputs)])

    def _checked(self, index: int, asked) -> np.ndarray:
        try:
            points = as_points(asked)
        except BadSet as error:
            raise DataError(f"Input {index + 1}: {error}.") from None
        if points.shape[1] != self.width:
            raise DataError(
                f"Input {index + 1}: vectors of {points.shape[1]} numbers, but the network reads {self.width}."
            )
        return points

    def size(self, asked):
        return len(asked)

    def name_input(self, asked):
        return f"{len(asked)} vectors"

    def as_input(self, text):
        raise UsageError("This run answers sets of vectors, not texts: give arrays of the shape (vectors, numbers).")

    def inputs(self, question):
        self.refuse(question, ("text", "text_pair"), "the run answers sets of vectors; name a file by --input_file")
        self.refuse(question, ("text_column", "text_pair_column"), "the vectors stand in the column of the training")
        sets = read_sets(question.input_file, self.columns.get("points_column"), with_labels=False)
        return (each.points for each in sets)

    def read(self, path: str, points_column: str | None = None, label_column: str | None = None) -> list:
        """Returns the labelled sets of a file, whose columns are by default those of the training."""
        columns = points_column or self.columns.get("points_column"), label_column or self.columns.get("label_column")
        return list(read_sets(path, *columns))


class Predictor(LabelForms, SetPredictor):
    """Labels sets."""

    def predictions(self, inputs, features, outputs):
        return predictions_of(outputs, self.labels)
