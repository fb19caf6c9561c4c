"""Steps whose loss or gradients are NaN or infinite: they are written for inspection, and too many of them end the run."""

import dataclasses
import json
import os
from typing import Any

import numpy as np

from data_pipelines.errors import NonFiniteError
from data_pipelines.files import own_folder, whole_file

FOLDER = "nonfinite"
MOST_KEPT = 10  # only the first so many skipped steps are written, which are the most informative
TOTAL_FACTOR = 10  # a run also ends when so many times the allowed steps in a row were skipped in all


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A skipped step.

    Attributes:
        step: its number, from 1.
        batch: the features of this host, {name: array}.
        losses: {name: mean}.
        gradient_norms: {name of the weight: norm}, before clipping.
    """

    step: int
    batch: dict[str, np.ndarray]
    losses: dict[str, float]
    gradient_norms: dict[str, float]

    def write(self, folder: str, weight_norms: dict[str, float]) -> str:
        """Writes step_N.npz (the batch) and step_N.json (losses and norms) below `folder`. Returns the path of the latter."""
        path = os.path.join(folder, FOLDER, f"step_{self.step:08d}")
        own_folder(os.path.dirname(path))
        arrays: dict[str, Any] = dict(self.batch)  # the names of features are no arguments of numpy
        with whole_file(f"{path}.npz") as file:
            np.savez_compressed(file, **arrays)
        layers = {n: {"gradient": g, "weight": weight_norms[n]} for n, g in self.gradient_norms.items()}
        found = {"step": self.step, "losses": self.losses, "norms": layers}
        with whole_file(f"{path}.json", "w") as file:
            json.dump(found, file, indent=1)  # NaN and Infinity are written as in Python and JavaScript
        return f"{path}.json"

    def summary(self) -> str:
        """Describes in a few words which losses and gradients are not finite."""
        broken = [name for name, norm in self.gradient_norms.items() if not np.isfinite(norm)]
        losses = ", ".join(f"{name} {value:g}" for name, value in self.losses.items())
        count = f"{len(broken)} of {len(self.gradient_norms)} gradients not finite"
        return f"losses: {losses}; {count}" + (f", the first of {broken[0]}" if broken else "")


def check_skipped(in_row: int, total: int, most: int, evidence: str, saved: list[str]) -> None:
    """Raises a NonFiniteError when `most` steps in a row, or ten times as many in all, were skipped."""
    if in_row < most and total < TOTAL_FACTOR * most:
        return
    counted = f"{in_row} steps in a row" if in_row >= most else f"{total} steps in all"
    raise NonFiniteError(
        f"{counted} had a loss or gradients that are not finite (--max_skipped_steps={most}). Lower --learning_rate, lengthen "
        f"the warm-up, or look at the batches and norms in {evidence}. They changed no weight. Last good state: "
        f"{saved[-1] if saved else 'none'}."
    )
