"""A network that turns texts into vectors, in memory, whoever wrote it."""

import dataclasses

import numpy as np

from xmodels.models.checkpoint import Checkpoint


@dataclasses.dataclass(frozen=True)
class SentenceEncoder:
    """What such a network does with a text.

    Attributes:
        encoder: the network, without heads.
        pooling: of its states, a name of ours; several are joined by +.
        max_sequence_length: counts the special tokens.
        dense: kernel (D, O) and bias (O,) of the Dense layer behind the pooling, and its activation; None where there is none.
        normalize: whether vectors have the length 1.
    """

    encoder: Checkpoint
    pooling: str
    max_sequence_length: int
    dense: tuple[np.ndarray, np.ndarray, str] | None
    normalize: bool
