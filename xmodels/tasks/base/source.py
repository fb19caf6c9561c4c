"""Where a task gets a checkpoint from. `xmodels.runs` opens it, so that tasks know neither runs nor the formats of others."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from xmodels.interfaces.loaded import Identity, Loaded
from xmodels.tasks.base.description import TaskDescription


class Source(Protocol):
    """A run, a model folder or somebody else's checkpoint by its name.

    Attributes:
        path: the name.
    """

    path: str

    def identify(self) -> Identity:
        """Returns what it holds; reads no weights."""

    def load(self, change: Callable = ...) -> Loaded:
        """Returns it in memory; `change` changes fields of its configuration that no weight depends on."""

    def description(self) -> TaskDescription | None:
        """Returns the contents of its task.json; None if it has none."""

    def columns(self) -> dict[str, str | None]:
        """Returns {flag: value} of the columns that `finetune` was given; None for those not given."""

    def word_vectors(self) -> tuple[Sequence[str], np.ndarray]:
        """Returns words and their vectors, float32 (V, D), of a run or of a file such as word2vec:FILE."""
