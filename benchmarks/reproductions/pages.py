"""The page of a reproduction: means over seeds, verdicts, tables and a picture.

Pages hold no dates and no timings: the same command on the same machine gives the same page.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Sequence

from benchmarks.measure import machine

RESULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results", "reproductions")


def mean_and_deviation(values: Sequence[float], form: str = ".1f", scale: float = 1.0) -> str:
    """`71.2 ± 0.8`: mean and sample standard deviation; the number alone where there is one, nothing where there is none."""
    values = [scale * value for value in values]
    if not values:
        return ""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"


def verdict(claims: dict[str, bool]) -> str:
    """Whether what a paper says came out here, claim by claim: `reproduced`, `partly` or `not reproduced`."""
    whole = "reproduced" if all(claims.values()) else "partly" if any(claims.values()) else "not reproduced"
    return f"**Verdict: {whole}.**\n\n{listed(claims)}"


def listed(claims: dict[str, bool]) -> str:
    """A line for each claim: whether it came out."""
    return "\n".join(f"- {'yes' if holds else 'no'}: {claim}" for claim, holds in claims.items())


def environment(command: str, seeds: Sequence[int], cores: int = 1) -> str:
    """How the page was made: the command, the seeds, versions and processors."""
    numbers = ", ".join(map(str, seeds))
    return f"    {command}\n\nSeeds {numbers}. {machine(cores)}"


def take_further_flags(parser: argparse.ArgumentParser) -> None:
    """Lets a reproduction pass on flags, as `options.more`."""
    parser.add_argument(
        "more", nargs="*", help="behind `--`: further flags of finetune, such as --mixed_precision=bfloat16"
    )


def changed(flags, defaults, names: Sequence[str]) -> list[str]:
    """`--name=value` of those flags that differ from their defaults: both are namespaces of argparse."""
    return [f"--{name}={getattr(flags, name)}" for name in names if getattr(flags, name) != getattr(defaults, name)]


def write_page(name: str, title: str, parts: Sequence[str], folder: str = RESULTS) -> str:
    """Writes `NAME.md` from parts that stand one below the other (tables by `table`). Returns its path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n\n".join([f"# {title}", *(part.strip("\n") for part in parts)]) + "\n")
    return path


def write_picture(name: str, draw: Callable, width: float = 6.0, height: float = 3.6, folder: str = RESULTS) -> str:
    """Writes `NAME.png`, for which `draw` gets a matplotlib figure. Returns its path."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.png")
    with rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(path, dpi=120)
    return path
