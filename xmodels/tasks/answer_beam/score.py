"""As of `answer_span`; the threshold is one of the logit of having no answer."""

from xmodels.tasks.answer_beam.spans import BeamSettings, of_row
from xmodels.tasks.answer_span.score import answered


def from_source(outputs, source, task):
    return answered(outputs, source, task, BeamSettings(**task.settings), of_row), source.questions
