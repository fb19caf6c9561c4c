"""The lines beside the accuracy of a run that need no network: what counting can name."""

import dataclasses
import os

from data_pipelines import schema, strict_json
from data_pipelines.files import write_json

FILE = "baseline.json"
UNIGRAM, NEIGHBOURS, VISIBLE = "commonest token", "commonest beside the neighbours", "commonest beside those not hidden"
FEWEST = 100  # steps; after fewer, nobody expects anything
MARGIN = 1.1  # times the unigram line; what a network must have reached after a tenth of a run


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Shares of tokens that counting names rightly.

    Attributes:
        unigram_baseline: always naming the commonest token.
        neighbour_baseline: naming the commonest one between its two neighbours, of causal language models behind the two tokens
            before; None in folders of older runs.
        measure: the accuracy that they stand beside.
        visible_baseline: as `neighbour_baseline`, but nothing is known of neighbours that are hidden as well, such as those of the
            same word: what counting names of the input that the network has. None of causal language models.
    """

    unigram_baseline: float
    neighbour_baseline: float | None = None
    measure: str = "masked_lm_accuracy"
    visible_baseline: float | None = None

    def write(self, folder: str) -> None:
        write_json(os.path.join(folder, FILE), dataclasses.asdict(self))

    @classmethod
    def read(cls, folder: str) -> "Baselines | None":
        """Those of a run; None where it has none, or a kill has cut the file.

        Raises:
            DataError: a value is of another type.
        """
        path = os.path.join(folder, FILE)
        try:
            value = strict_json.read(path)
        except (FileNotFoundError, ValueError):
            return None
        return schema.convert(value, cls, schema.Place(path)) if value else None

    @property
    def levels(self) -> dict[str, float]:
        """The lines by name, as a chart draws them."""
        named = {UNIGRAM: self.unigram_baseline, NEIGHBOURS: self.neighbour_baseline, VISIBLE: self.visible_baseline}
        return {name: value for name, value in named.items() if value is not None}

    def sentence(self) -> str:
        """What a run says first."""
        text = f"Without a network: always naming the commonest token is right {self.unigram_baseline:.1%} of the time"
        if self.neighbour_baseline is not None:
            text += f", naming the commonest one beside its true neighbours {self.neighbour_baseline:.1%}"
        if self.visible_baseline is not None:
            text += f", beside those of them that are not hidden as well {self.visible_baseline:.1%}"
        return f"{text} ({self.measure})."

    def has_learnt_nothing(self, accuracy: float, step: int, num_steps: int) -> bool:
        """Whether a run has learnt nothing after a tenth of its steps; of a trial nothing is expected."""
        return step >= max(FEWEST, num_steps / 10) and accuracy <= MARGIN * self.unigram_baseline

    def warning(self, accuracy: float, step: int, num_steps: int) -> str:
        """What to say of such a run."""
        return (
            f"Warning: after {step:,} of {num_steps:,} steps the network is right {accuracy:.1%} of the time, and always naming "
            f"the commonest token {self.unigram_baseline:.1%}: it has not begun to use the text."
        )
