"""The answers to questions about texts, as of `answer_span`, from beams."""

from xmodels.tasks.answer_beam.spans import BeamSettings, of_row, roles_of
from xmodels.tasks.answer_span import answer


class Predictor(answer.Predictor):
    settings_class = BeamSettings
    of_row = staticmethod(of_row)

    def features(self, inputs):
        found = super().features(inputs)
        lengths = [(len(each.question_ids), len(each.context_ids)) for each in inputs]
        roles = roles_of(found["padding_mask"], lengths, self.task.reading.frame, self.settings.context_first)
        return {**found, "span_roles": roles}
