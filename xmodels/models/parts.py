"""What a part of an encoder-decoder takes over from a language model (Ramachandran et al., 2017; Rothe et al., 2020)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

ENCODER, DECODER = "encoder", "decoder"
PARTS = (ENCODER, DECODER)


@dataclasses.dataclass(frozen=True)
class Part:
    """Weights for a part of a network, and what must hold for them.

    Attributes:
        values: {our flat name, `backbone.…` or `objective.…`: array}.
        sizes: {field of our configuration: (what the weights need, what we have)}; these must be equal.
        settings: likewise; where these differ, the part does not compute what the language model does.
    """

    values: Mapping[str, Any]
    sizes: Mapping[str, tuple[Any, Any]]
    settings: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
