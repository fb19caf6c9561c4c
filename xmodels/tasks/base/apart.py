"""An export whose network stands apart, in a format of its own: strings become ids, the network makes numbers of them, and these
become answers.

`serve.py` of a task says where it can be parted. `xmodels.export` writes the parts, and `xmodels.serving` joins them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from xmodels.tasks.base.signatures import Column

Arrays = Mapping[str, np.ndarray]
Tensors = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Parted:
    """A signature whose network stands apart.

    Attributes:
        read: the inputs in order -> {name of a feature: tensor}, what the network reads.
        write: (numbers of the network, the inputs in order) -> {name of an output: tensor}.
        inputs, outputs: as of a `Signature`.
    """

    read: Callable[..., Tensors]
    write: Callable[..., Tensors]
    inputs: Sequence[Column]
    outputs: Sequence[Column]


class Apart:
    """What a `Server` knows of its network where it stands apart.

    Attributes:
        numbers: outputs of the network, all of them float32, from which its answers follow; none where the task cannot be parted.
        scored_as: the task by whose `score.py` it is scored; None for its own.
    """

    numbers: ClassVar[tuple[str, ...]] = ()
    scored_as: ClassVar[str | None] = None
    predictor: Any
    names: Sequence[str]

    def parted(self) -> Mapping[str, Parted]:
        """Returns the signatures by name; `serving_default` is one of them. None where the task cannot be parted."""
        return {}

    def network(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Returns `numbers` of features, in the graph that is exported."""
        found = self.predictor.answer(features)
        return {name: found[name] for name in self.numbers}

    # How numbers are compared with those of the run.

    def ask_network(self, network: Callable[[Arrays], Arrays], features: Arrays) -> Arrays:
        """Returns `numbers` for features of the predictor, of a network that stands apart."""
        return network(features)

    def completed(self, numbers: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs of the predictor that follow from numbers."""
        return dict(numbers)

    def shares(self, numbers: Arrays, features: Arrays) -> Arrays:
        """Returns numbers as what is compared: probabilities where they are scores of labels or places."""
        return numbers

    def served_rows(self, inputs: Sequence) -> list[tuple]:
        """Returns inputs of the predictor as rows of `serving_default`."""
        return [tuple(each) for each in inputs]

    def from_served(self, found: Arrays, inputs: Sequence) -> Arrays | None:
        """Returns the numbers that a SavedModel gives, of outputs of `serving_default` for inputs; None where it gives none."""
        return None

    def named(self, prediction) -> Any:
        """Returns the answer of a prediction without its numbers; None where it is a number."""
        return None


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
