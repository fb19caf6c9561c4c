"""The runs of a reproduction: commands in this process, which are not repeated where they are finished, and what they scored."""

import concurrent.futures
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from data_pipelines.files import whole_file

Run = TypeVar("Run")


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


def side_by_side(module: str, parts: Sequence[Sequence[str]], jobs: int) -> None:
    """Runs a reproduction once for each of these lists of flags, `jobs` at a time, in processes that share the cores.

    Raises:
        subprocess.CalledProcessError: a process failed; it has said why.
    """
    from xmodels.comparison.runner import environment

    def run_part(flags: Sequence[str]) -> None:
        program = [sys.executable, "-m", f"benchmarks.reproductions.{module}", *flags]
        subprocess.run(program, check=True, env=environment(jobs))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_part, parts))


def results_of(model_dir: str) -> dict[str, float]:
    """What a run scored: the `results` of its results.json."""
    with open(os.path.join(model_dir, "results.json"), encoding="utf-8") as file:
        return json.load(file)["results"]


def is_finished(model_dir: str) -> bool:
    """Whether a run has written its results, so that a reproduction that was interrupted need not repeat it."""
    return os.path.isfile(os.path.join(model_dir, "results.json"))


def kept(path: str, score: Callable[..., dict], *arguments) -> dict:
    """What `score` gives for the arguments; in a file, so that it is not computed twice."""
    if not os.path.isfile(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        found = score(*arguments)
        with whole_file(path, "w") as file:
            json.dump(found, file)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


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


def bracketed(
    made: Callable[[float], Run], loss: Callable[[Run], float], rates: Sequence[float], first: slice
) -> dict[float, Run]:
    """Runs by their rate: those of `first`, and others of `rates` until the best one has worse neighbours or stands at an edge.

    Args:
        made: gives the run of a rate.
        loss: of a run, on development data.
        rates: in ascending order.
    """
    found = {rate: made(rate) for rate in rates[first]}
    while True:
        place = rates.index(min(found, key=lambda rate: loss(found[rate])))
        missing = [rate for rate in rates[max(0, place - 1) : place + 2] if rate not in found]
        if not missing:
            return found
        found |= {rate: made(rate) for rate in missing}


def fraction_of(rows: list, fraction: float, seed: int) -> list:
    """The rows that `finetune --train_fraction` draws with a seed, where each row of a table is one example."""
    from xmodels.jobs.finetune.few_examples import draw_places

    return [rows[place] for place in draw_places(len(rows), max(1, int(fraction * len(rows))), seed)]


def network_of(checkpoint: str) -> str:
    """What a run or model folder holds, in words that name no path."""
    from xmodels.conversion import convert

    loaded = convert.load(checkpoint)
    return f"`{loaded.system or loaded.model}`, pretrained, {loaded.config.num_layers} layers of {loaded.config.hidden_dim}"
