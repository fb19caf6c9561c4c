"""How large weights, gradients and updates are, layer by layer."""

import dataclasses
import math

import numpy as np

from xmodels.models.backbone import named_weights


@dataclasses.dataclass(frozen=True)
class NormsReport:
    """The norms of a learner after a step.

    Attributes:
        norms: `gradient_norm/LAYER` (of the last step, before clipping), `weight_norm/LAYER` and `update_norm/LAYER`.
        numbers: what histograms are drawn of: `gradient_norms`, `weight_norms` and `update_norms`, one number for each
            variable; `weights/LAYER` and `updates/LAYER`, all numbers of a layer. Only what is finite.
    """

    norms: dict[str, float]
    numbers: dict[str, np.ndarray]


class LayerNorms:
    """Measures the layers of a learner after a step, for which it remembers the weights before it."""

    def __init__(self, learner):
        parts = (learner.backbone, learner.objective)
        names = {id(variable): name for part in parts for name, variable in named_weights(part).items()}
        owners = [_layer(names[id(variable)]) for variable in learner.variables]
        self.learner = learner
        self.layers = {layer: [i for i, owner in enumerate(owners) if owner == layer] for layer in sorted(set(owners))}
        self.earlier: list[np.ndarray] | None = None

    def remember(self) -> None:
        """Remembers the weights right before the step whose update is to be looked at; costs a copy of them until `report`."""
        self.earlier = self._weights()

    def report(self) -> NormsReport:
        """Returns what the last step left. Updates are missing where nothing was remembered."""
        weights, updates = self._weights(), None
        squares = {"gradient": np.square(self.learner.gradient_norms.numpy()), "weight": _squares(weights)}
        if self.earlier is not None:
            updates = [now - then for now, then in zip(weights, self.earlier, strict=True)]
            squares["update"], self.earlier = _squares(updates), None
        norms = {
            f"{kind}_norm/{layer}": math.sqrt(values[places].sum())
            for kind, values in squares.items()
            for layer, places in self.layers.items()
        }
        numbers = {f"{kind}_norms": np.sqrt(values) for kind, values in squares.items()}
        for kind, arrays in (("weights", weights), ("updates", updates)):
            if arrays is not None:
                numbers |= {f"{kind}/{layer}": _join_arrays(arrays, places) for layer, places in self.layers.items()}
        finite = {name: values[np.isfinite(values)] for name, values in numbers.items()}
        return NormsReport({name: norm for name, norm in norms.items() if math.isfinite(norm)}, finite)

    def _weights(self) -> list[np.ndarray]:
        return [variable.numpy() for variable in self.learner.variables]


def _squares(arrays: list[np.ndarray]) -> np.ndarray:
    """Returns the squared norm of each array, float64."""
    return np.array([np.vdot(x, x) for x in arrays], np.float64)


def _join_arrays(arrays: list[np.ndarray], places: list[int]) -> np.ndarray:
    return np.concatenate([arrays[i].ravel() for i in places])


def _layer(name: str) -> str:
    """Returns `blocks.0` of `blocks.0.mixer.query.kernel`, `embedding` of `embedding.token`."""
    first, *others = name.split(".")
    return f"{first}.{others[0]}" if others and others[0].isdigit() else first
