"""What the reproductions of papers share: commands in this process, means over seeds, verdicts, a page and a picture.

Pages hold no dates and no timings: the same command on the same machine gives the same page.
"""

import importlib
import json
import os
import shutil
import statistics
from collections.abc import Callable, Sequence

from benchmarks.measure import machine, table

RESULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results", "reproductions")


def run(verb: str, *arguments: str, **flags) -> None:
    """`xmodels VERB ARGUMENTS --FLAG=VALUE …` in this process; flags that are None are left out.

    Raises:
        RuntimeError: the command failed; it has said why.
    """
    given = [*arguments, *(f"--{name}={value}" for name, value in flags.items() if value is not None)]
    print(f"xmodels {verb} {' '.join(given)}", flush=True)
    module = importlib.import_module(f"launch.{verb}")
    try:
        code = module.COMMAND.main(given)
    except SystemExit as stop:
        code = stop.code
    if code:
        raise RuntimeError(f"xmodels {verb} ended with {code}.")


def results_of(model_dir: str) -> dict[str, float]:
    """What a run scored: the `results` of its results.json."""
    with open(os.path.join(model_dir, "results.json"), encoding="utf-8") as file:
        return json.load(file)["results"]


def is_finished(model_dir: str) -> bool:
    """Whether a run has written its results, so that a reproduction that was interrupted need not repeat it."""
    return os.path.isfile(os.path.join(model_dir, "results.json"))


def make_records(folder: str, *switches: str, **flags) -> None:
    """Makes records of text in a folder unless they are whole; what an interrupted run left is gone on with."""
    if not os.path.isfile(os.path.join(folder, "manifest.json")):
        resume = ["--resume"] if os.path.isdir(folder) else []
        run("create_pretraining_data", *switches, *resume, output_dir=folder, **flags)


def fine_tuned(folder: str, *switches: str, keep_weights: bool = False, **flags) -> dict[str, float]:
    """The scores of a fine-tuning in a folder, which is made unless it is finished. Checkpoints do not stay there.

    Args:
        switches: flags without a value, or as they are written.
        keep_weights: the network stays, for what is asked of it later.
        flags: those of `finetune`, besides `model_dir`.
    """
    if not is_finished(folder):
        run("finetune", *switches, model_dir=folder, **({"save_checkpoints_steps": 10**6} | flags))
    for part in ("checkpoints", "tensorboard", *(() if keep_weights else ("backbone",))):
        shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
    return results_of(folder)


def tuned(
    scored: Callable[[str, int], dict[str, float]],
    rates: Sequence[str],
    seeds: Sequence[int],
    decisive: str,
    lowest: bool = False,
) -> tuple[str, list[dict[str, float]]]:
    """The rate that is best with the first seed, and the scores of all seeds with that rate.

    Args:
        scored: gives the scores of a fine-tuning by a rate and a seed.
        decisive: the score that chooses, such as `evaluation accuracy`: one of the development file.
        lowest: the score is a loss.
    """
    first, *others = seeds
    tried = {rate: scored(rate, first) for rate in rates}
    rate = (min if lowest else max)(tried, key=lambda each: tried[each][decisive])
    return rate, [tried[rate], *(scored(rate, seed) for seed in others)]


def fraction_of(rows: list, fraction: float, seed: int) -> list:
    """The rows that `finetune --train_fraction` draws with a seed, where each row of a table is one example."""
    from xmodels.jobs.few_examples import drawn_places

    return [rows[place] for place in drawn_places(len(rows), max(1, int(fraction * len(rows))), seed)]


def network_of(checkpoint: str) -> str:
    """What a run or model folder holds, in words that name no path."""
    from xmodels.conversion import convert

    loaded = convert.load(checkpoint)
    return f"`{loaded.system}`, pretrained, {loaded.config.num_layers} layers of {loaded.config.hidden_dim}"


def mean_and_deviation(values: Sequence[float], form: str = ".1f", scale: float = 1.0) -> str:
    """`71.2 ± 0.8`: mean and sample standard deviation; the number alone where there is one."""
    values = [scale * value for value in values]
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"


def verdict(claims: dict[str, bool]) -> str:
    """Whether what a paper says came out here, claim by claim: `reproduced`, `partly` or `not reproduced`."""
    whole = "reproduced" if all(claims.values()) else "partly" if any(claims.values()) else "not reproduced"
    lines = [f"- {'yes' if holds else 'no'}: {claim}" for claim, holds in claims.items()]
    return "\n".join([f"**Verdict: {whole}.**", "", *lines])


def environment(command: str, seeds: Sequence[int], cores: int = 1) -> str:
    """How the page was made: the command, the seeds, versions and processors."""
    numbers = ", ".join(map(str, seeds))
    return f"    {command}\n\nSeeds {numbers}. {machine(cores)}"


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


__all__ = ["RESULTS", "changed", "environment", "fine_tuned", "is_finished", "mean_and_deviation", "network_of", "results_of", "run",
           "table", "tuned", "verdict", "write_page", "write_picture"]  # fmt: skip
