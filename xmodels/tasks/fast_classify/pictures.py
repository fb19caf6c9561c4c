"""Pictures of early exits: accuracy against layers, where texts leave, and whether less uncertain labels are righter."""

import numpy as np

from xmodels.tasks.base.pictures import BLUE, RED, new_figure, write
from xmodels.tasks.fast_classify.answer import DEFAULT_SPEED
from xmodels.tasks.fast_classify.exits import Exits

PALE = "#9db8ee"
CURVE = np.linspace(0.0, 1.0, 41)  # speeds
SHOWN = (DEFAULT_SPEED, 0.5)  # speeds whose exits are counted
BINS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])  # of uncertainty
FEW = 20  # texts; a bin with fewer is not drawn


def draw(folder: str, exits: Exits, truth) -> list[str]:
    """Writes the pictures into a folder; returns their paths."""
    return write(
        folder,
        {"exits": by_layer(exits), "speed": by_speed(exits, truth), "uncertainty": by_uncertainty(exits, truth)},
    )


def by_layer(exits: Exits):
    """Returns how many texts leave behind each layer."""
    figure, axis = new_figure(6.4, 3.4)
    depth = exits.logits.shape[1]
    for shift, speed, colour in zip((-0.2, 0.2), SHOWN, (BLUE, PALE), strict=True):
        share = 100 * np.bincount(exits.at(speed)[1], minlength=depth) / len(exits.logits)
        axis.bar(np.arange(1, depth + 1) + shift, share, 0.4, color=colour, label=f"speed {speed:g}")
    axis.set(title="share of texts that exit after each layer", xlabel="layer", ylabel="%", xticks=range(1, depth + 1))
    axis.legend(frameon=False)
    return figure


def by_speed(exits: Exits, truth):
    """Returns accuracy against layers on average over all speeds, beside single classifiers."""
    figure, axis = new_figure(6.4, 3.4)
    points = []
    for speed in CURVE:
        labels, layers = exits.at(speed)
        points.append((layers.mean() + 1, 100 * (labels == truth).mean()))
    each = 100 * exits.accuracies(truth)
    axis.plot(*zip(*points, strict=True), color=BLUE, label="early exit, speed 0 to 1")
    axis.plot(range(1, len(each) + 1), each, "o", color=RED, label="all texts exit after the same layer")
    axis.set(title="accuracy by mean number of layers", xlabel="layers", ylabel="accuracy, %")
    axis.legend(frameon=False)
    return figure


def by_uncertainty(exits: Exits, truth):
    """Returns accuracy of the labels of each classifier by their uncertainty."""
    figure, axis = new_figure(6.4, 3.4)
    right = exits.logits.argmax(axis=-1) == np.asarray(truth)[:, None]  # (N, layers)
    bins = np.digitize(exits.uncertainties, BINS[1:-1])  # (N, layers)
    middles = (BINS[:-1] + BINS[1:]) / 2
    depth = right.shape[1]
    for layer in range(depth):
        groups = [(middles[k], right[:, layer][bins[:, layer] == k]) for k in range(len(middles))]
        there = [(x, 100 * found.mean()) for x, found in groups if len(found) >= FEW]
        if there:
            shade = 0.25 + 0.75 * layer / max(1, depth - 1)
            axis.plot(*zip(*there, strict=True), marker="o", color=BLUE, alpha=shade, label=f"layer {layer + 1}")
    axis.set(title="accuracy by uncertainty", xlabel="uncertainty", ylabel="accuracy, %", xlim=(0, 1))
    if axis.lines:
        axis.legend(frameon=False, fontsize="small")
    return figure
