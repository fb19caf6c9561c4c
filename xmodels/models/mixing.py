"""Configurations of networks whose mixer can be chosen."""

import dataclasses
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.layers import mixers
from xmodels.models.backbone import NOTHING, ModelConfig


@dataclasses.dataclass(frozen=True)
class MixerConfig(ModelConfig):
    """The mixer of all blocks, and the numbers of those that have some.

    A configuration with the default mixer is written without these fields, as before there was a choice.

    Attributes:
        mixer: a file of `layers/attention`.
        attention_window: of `local_window`: how many tokens are seen on each side.
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
        """See `ModelConfig`. The mixer must be one of ours."""
        config = super().from_json(values, source, spelled)
        try:
            mixers.find(config.mixer)
        except ValueError as error:
            raise CheckpointError(f"{source}: `mixer`: {error}") from None
        return config
