"""Files of questions, or records made of them, as of `answer_span`, with what an answer may be made of."""

from typing import ClassVar

from xmodels.tasks.answer_beam.spans import BeamSettings, roles_of
from xmodels.tasks.answer_span import read


class Reader(read.Reader):
    """The same files, windows and places."""

    settings_class: ClassVar[type] = BeamSettings

    def _positions(self, arrays, lengths, found):
        roles = roles_of(arrays["padding_mask"], lengths, self.reading.frame, self.settings.context_first)
        return {**super()._positions(arrays, lengths, found), "span_roles": roles}
