"""A picture of the steps that a network takes for each sentence of a story, and of its attention in each step."""

import numpy as np

from xmodels.tasks.answer_story.answer import Story, StoryAnswer

LONGEST = 60  # letters of a sentence; the rest is cut
MOST_PLACES = 40  # sentences with the question; of a longer story the last ones are drawn


def draw(story: Story, answer: StoryAnswer, attention: np.ndarray, truth: str | None = None):
    """Returns a figure of matplotlib: bars of steps, if the network decides about them, and a map for each step or layer.

    Args:
        attention: float32 (T, H, S, S). Shown is the mean of the heads. Rows of places that have stopped are left white,
            and steps that no place takes are left out.
        truth: the right answer, where it is known.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    count = min(attention.shape[-1], MOST_PLACES)
    lines = [*story[0], story[1]][-count:]
    maps = attention.mean(axis=1)[:, -count:, -count:]  # (T, S, S)
    steps, most = None if answer.steps is None else answer.steps[-count:], len(maps)
    maps = maps if steps is None else maps[: int(steps.max())]  # in later steps no place is awake
    with rc_context({"text.parse_math": False, "font.size": 8}):
        height = 0.2 * count + 1.2
        labels, square = 0.075 * max(len(line[:LONGEST]) for line in lines), max(1.2, 0.2 * count)
        panels = len(maps) + (steps is not None)
        figure = Figure(figsize=(labels + square * panels, height), layout="constrained")
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
        axes[0].set_yticks(range(count), [_line(line, n) for n, line in enumerate(lines, 1)])
        axes[0].set_ylim(count - 0.5, -0.5)
        if steps is not None:
            axes[0].barh(range(count), steps, color="#1450c8")
            axes[0].set(title="steps", xlim=(0, most), xticks=range(most + 1))
            axes[0].spines[["top", "right"]].set_visible(False)
        for step, (axis, shown) in enumerate(zip(axes[-len(maps) :], maps, strict=True)):
            if steps is not None:
                shown = np.where((steps > step)[:, None], shown, np.nan)
            axis.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
            axis.set_title(f"attention {step + 1}")
            axis.set_xticks(range(0, count, max(1, count // 8)), range(1, count + 1, max(1, count // 8)))
        figure.suptitle(_title(answer, truth), x=0.01, ha="left")
    return figure


def _line(line: str, number: int) -> str:
    return f"{line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'}  {number}"


def _title(answer: StoryAnswer, truth: str | None) -> str:
    title = f"answer: {answer.answer} ({answer.probabilities[answer.answer]:.0%})"
    return title if truth in (None, answer.answer) else f"{title}, correct: {truth}"
