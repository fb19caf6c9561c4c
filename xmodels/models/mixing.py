"""The configuration of networks whose mixer can be chosen."""

import dataclasses
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.layers import mixers
from xmodels.models.backbone import NOTHING, ModelConfig


@dataclasses.dataclass(frozen=True)
class MixerConfig(ModelConfig):
    """The mixer of all blocks, and its sizes.

    `to_json` leaves these fields out for the default mixer, for compatibility with folders from before they existed.

    Attributes:
        mixer: the name of a mixer, that of its file in `layers/attention`.
        attention_window: of `local_window`, how many tokens a token attends to on each side.
    """

    mixer: str = mixers.DEFAULT
    attention_window: int = 128

    def keys_per_query(self, length: int) -> int:
        return mixers.find(self.mixer).keys_per_query(self, length)

    def to_json(self) -> dict[str, Any]:
        values = super().to_json()
        if self.mixer == mixers.DEFAULT:
            del values["mixer"], values["attention_window"]
        return values

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """As in `ModelConfig`; also raises a CheckpointError if the mixer is unknown."""
        config = super().from_json(values, source, spelled)
        try:
            mixers.find(config.mixer)
        except ValueError as error:
            raise CheckpointError(f"{source}: `mixer`: {error}") from None
        return config
