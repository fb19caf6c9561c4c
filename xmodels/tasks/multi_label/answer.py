"""All labels that suit texts, or pairs, with their probabilities."""

import dataclasses

from data_pipelines.errors import CheckpointError
from data_pipelines.text.labels import SEPARATOR
from xmodels.tasks.base.description import TASK_FILE
from xmodels.tasks.base.forms import PROBABILITIES, likeliest
from xmodels.tasks.classify import answer
from xmodels.tasks.multi_label.task import SOFTMAX


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The labels whose probability reaches their threshold, likeliest first, and the probability of each label."""

    labels: list[str]
    probabilities: dict[str, float]


class Predictor(answer.Predictor):
    """Labels inputs: tuples of `num_texts` strings.

    Attributes:
        thresholds: of each label, as the evaluation set of the run has chosen them.
    """

    table = ("labels", PROBABILITIES)

    def __init__(self, run, columns=None):
        settings, count = run.description.settings, len(run.description.labels)
        self.thresholds = settings.get("thresholds")
        self.separator = settings.get("label_separator", SEPARATOR)
        numbers = isinstance(self.thresholds, list) and all(
            isinstance(x, int | float) and 0 <= x <= 1 for x in self.thresholds
        )
        if not numbers or len(self.thresholds) != count or not isinstance(self.separator, str):
            raise CheckpointError(
                f"{TASK_FILE}: `settings` must hold `thresholds`, a number from 0 to 1 for each of the {count} labels, and "
                f"`label_separator`. Found: {settings!r:.80}."
            )
        super().__init__(run, columns)

    def make_task(self, run):
        softmax = run.description.settings.get(SOFTMAX, False)
        if not isinstance(softmax, bool):
            raise CheckpointError(
                f"{TASK_FILE}: `settings` must hold as `{SOFTMAX}` true or false. Found: {softmax!r:.80}."
            )
        return run.make_task(softmax=softmax)

    def predictions(self, inputs, features, outputs):
        return [self._prediction(row) for row in outputs["probabilities"].tolist()]

    def _prediction(self, row: list[float]) -> Prediction:
        rows = zip(self.labels, row, self.thresholds, strict=True)
        named = sorted((-value, label) for label, value, threshold in rows if value >= threshold)
        return Prediction([label for _, label in named], dict(zip(self.labels, row, strict=True)))

    def describe_prediction(self, asked, prediction):
        yield f"labels: {', '.join(prediction.labels) or 'none'}"
        yield from likeliest(prediction.probabilities)

    def line(self, asked, prediction):
        return f"{self.separator.join(prediction.labels)}\t{self.name_input(asked)}"
