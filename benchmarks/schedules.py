"""Draws the learning-rate schedules: docs/schedules.png.

python -m benchmarks.schedules [--output=docs/schedules.png]
"""

import argparse

import matplotlib
import numpy as np

from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.schedules.kinds import SCHEDULES

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WARMUP, STEPS = 100, 1000
GROUPS = (
    ("Down to nothing", ("bert_linear", "linear", "gpt_linear", "cosine", "polynomial")),
    ("On and on", ("constant", "noam", "inverse_sqrt", "t5_inverse_sqrt", "root_decay")),
    ("There and back", ("slanted_triangular",)),
)


def rates(name: str, peak: float = 1.0) -> np.ndarray:
    """The rate of each step, float32 (STEPS,)."""
    power = 2.0 if name == "polynomial" else 1.0
    numbers = Optimization(schedule=name, learning_rate=peak, num_warmup_steps=WARMUP, num_steps=STEPS, lr_power=power)
    schedule = numbers.make_schedule()
    return np.array([float(schedule(step)) for step in range(STEPS)])


def draw(path: str) -> None:
    """Writes the picture."""
    assert {name for _, names in GROUPS for name in names} == set(SCHEDULES), "a schedule is missing from GROUPS"
    figure, panels = plt.subplots(1, len(GROUPS), figsize=(12, 3.4), sharey=True, layout="constrained")
    for panel, (title, names) in zip(panels, GROUPS, strict=True):
        for name, style in zip(names, ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))[: len(names)], strict=True):
            label = "polynomial, --lr_power=2" if name == "polynomial" else name
            panel.plot(rates(name), linestyle=style, label=label, linewidth=1.6)
        panel.axvline(WARMUP, color="0.8", linewidth=0.8, zorder=0)
        panel.set(title=title, xlabel="step", ylim=(0, 1.05))
        panel.legend(fontsize=8, frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share of --learning_rate")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="docs/schedules.png")
    draw(parser.parse_args().output)
