"""What a checkpoint holds, once it is opened: its network, tokenizer, and how it reads and writes. `xmodels.runs` opens it."""

import dataclasses
import os

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.interfaces.reading import Reading
from xmodels.interfaces.writing import Writing
from xmodels.models import folder
from xmodels.models.backbone import Backbone


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a checkpoint holds.

    Attributes:
        source: the folder or `hf:FOLDER` as it was named.
        path: the model folder; of somebody else's checkpoint `source`.
        system: the file of `xmodels/systems`; None where no system trains the network.
        network: the class of the network.
        reading: how texts enter it; None where the system reads no texts for tasks.
        writing: how texts leave it; None where the system does not generate.
        pooling: what the head of its task reads, which `reading` knows; None for what the paper of the system reads.
    """

    source: str
    path: str
    system: str | None
    network: type[Backbone]
    reading: Reading | None
    writing: Writing | None
    pooling: str | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(frozen=True)
class Loaded(Identity):
    """A checkpoint in memory.

    Attributes:
        backbone: with its weights.
        heads: the weights of objectives and tasks, by name: `objective.…`.
        tokenizer: of its vocabulary.
    """

    backbone: Backbone
    heads: dict[str, np.ndarray]
    tokenizer: Tokenizer

    def assign(self, part) -> None:
        """Gives an objective or task that is built its weights. Raises a CheckpointError where they do not fit."""
        folder.assign(part.prefix, part, self.heads, os.path.join(self.path, folder.WEIGHTS))

    def objective(self):
        """Returns what turns the states of the network into tokens, with its weights.

        Raises:
            CheckpointError: the network writes no texts.
        """
        if self.writing is None:
            raise CheckpointError(
                f"{self.path}: holds a network that writes no texts, so none of its heads predicts tokens."
            )
        objective = self.writing.objective(self.backbone.config)
        self.assign(objective)
        return objective
