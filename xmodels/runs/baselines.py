"""Baselines of a run's accuracy that need no network: tokens predicted by counts of the training text."""

import dataclasses
import os

from data_pipelines import schema, strict_json
from data_pipelines.files import write_json

FILE = "baseline.json"
UNIGRAM, NEIGHBOURS, VISIBLE = "most frequent token", "counts of the neighbours", "counts of visible neighbours"
FEWEST = 100  # steps; shorter runs are trials, of which nothing is expected
MARGIN = 1.1  # times the unigram baseline: what a network must reach within a tenth of a run


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Shares of tokens that counts of the training text predict rightly.

    Attributes:
        unigram_baseline: always predicting the most frequent token.
        neighbour_baseline: predicting the token that is most frequent between the two true neighbours, of causal language models
            after the two tokens before; None in folders of older runs.
        measure: the accuracy that they are compared with.
        visible_baseline: as `neighbour_baseline`, but from those neighbours only that the network sees too: the
            neighbours of a token are often pieces of the same masked word. None for causal language models.
    """

    unigram_baseline: float
    neighbour_baseline: float | None = None
    measure: str = "masked_lm_accuracy"
    visible_baseline: float | None = None

    def write(self, folder: str) -> None:
        write_json(os.path.join(folder, FILE), dataclasses.asdict(self))

    @classmethod
    def read(cls, folder: str) -> "Baselines | None":
        """Returns those of a run; None where it has none, or a kill has cut the file.

        Raises:
            DataError: a value is of another type.
        """
        path = os.path.join(folder, FILE)
        try:
            value = strict_json.read(path)
        except (FileNotFoundError, ValueError):
            return None
        return schema.convert(value, cls, schema.Location(path)) if value else None

    @property
    def levels(self) -> dict[str, float]:
        """The lines by name, as a chart draws them."""
        named = {UNIGRAM: self.unigram_baseline, NEIGHBOURS: self.neighbour_baseline, VISIBLE: self.visible_baseline}
        return {name: value for name, value in named.items() if value is not None}

    def sentence(self) -> str:
        """Returns the line that a run prints before its first step."""
        text = f"Baselines of {self.measure} without a network: {self.unigram_baseline:.1%} by always predicting the most frequent "
        text += "token"
        if self.neighbour_baseline is not None:
            text += f", {self.neighbour_baseline:.1%} by counts of the true neighbouring tokens"
        if self.visible_baseline is not None:
            text += f", {self.visible_baseline:.1%} by counts of those neighbours that the network sees"
        return f"{text}."

    def has_learnt_nothing(self, accuracy: float, step: int, num_steps: int) -> bool:
        """Returns whether a run has learnt nothing after a tenth of its steps; of a trial nothing is expected."""
        return step >= max(FEWEST, num_steps / 10) and accuracy <= MARGIN * self.unigram_baseline

    def warning(self, accuracy: float, step: int, num_steps: int) -> str:
        """Returns the warning for such a run."""
        return (
            f"Warning: after {step:,} of {num_steps:,} steps {self.measure} is {accuracy:.1%}, and always predicting the most "
            f"frequent token gives {self.unigram_baseline:.1%}: the network does not use the context yet."
        )
