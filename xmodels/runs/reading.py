"""What stands in the folders of runs: finished, under way or killed."""

import dataclasses
import datetime
import os
import statistics
from collections.abc import Sequence

from data_pipelines import strict_json
from data_pipelines.errors import UsageError
from data_pipelines.schema import Location, convert
from xmodels.runs.baselines import Baselines
from xmodels.runs.charts import COLOURS, Curve
from xmodels.training.watching.progress import duration, measure_of, read_log

SPEEDS = {"tokens_per_second", "real_tokens_per_second", "model_flops_utilisation"}
BUSY = 15 * 60  # seconds; a log that was written to since may belong to a run that is under way


@dataclasses.dataclass(frozen=True)
class Run:
    """What stands in the folder of a run; empty where it is not there (yet)."""

    name: str
    folder: str
    colour: str
    config: dict
    environment: dict
    results: dict
    baselines: Baselines | None
    log: list[dict]

    def of_kind(self, kind: str) -> list[dict]:
        """Returns the entries of the log of one kind, such as "train"."""
        return [entry for entry in self.log if entry.get("kind") == kind and isinstance(entry.get("step"), int)]

    def curve(self, kind: str, name: str, label: str, colour: str = "") -> Curve | None:
        """Returns one quantity over the steps; None where the log holds nothing of it.

        Speeds of 0 are gaps: where a line of the log covers nothing but the call that traced the graph.
        """
        found = [(e["step"], e[name]) for e in self.of_kind(kind) if isinstance(e.get(name), int | float)]
        points = [(step, value) for step, value in found if value or name not in SPEEDS]
        steps, values = ([p[i] for p in points] for i in (0, 1))
        noisy = kind == "train" and measure_of(name) not in ("learning_rate", "weight")
        return Curve(label, steps, values, colour or self.colour, kind == "evaluation", noisy) if points else None


def read_runs(folders: Sequence[str]) -> list[Run]:
    """Returns the runs in some folders, named by what tells their paths apart."""
    names = [os.path.basename(os.path.abspath(folder)) for folder in folders]
    if len(set(names)) < len(names):
        names = list(folders)
    return [read_run(f, n, COLOURS[i % len(COLOURS)]) for i, (f, n) in enumerate(zip(folders, names, strict=True))]


def read_run(folder: str, name: str, colour: str) -> Run:
    """Returns what stands in one folder.

    Raises:
        UsageError: there is no run.
        DataError: a file of it holds a value of another type.
    """
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise UsageError(
            f"--model_dir={folder}: holds no run (no config.json). Name a folder that pretrain or finetune made."
        )
    config, environment, results = (
        _json(os.path.join(folder, f"{part}.json")) for part in ("config", "environment", "results")
    )
    parts = (config, "config", "flags"), (config, "config", "settings"), (results, "results", "results")
    for values, file, key in parts:
        convert(values.get(key, {}), dict, Location(os.path.join(folder, f"{file}.json"), key))
    log = read_log(os.path.join(folder, "log.jsonl"))
    return Run(name, folder, colour, config, environment, results, Baselines.read(folder), log)


def _json(path: str) -> dict:
    """Returns a JSON object; nothing where there is none, or one that a kill has cut."""
    try:
        value = strict_json.read(path)
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def seconds(log: Sequence[dict]) -> float:
    """Returns the time between entries; a gap that is far longer than the others, as after a kill, does not count."""
    times = [entry["time"] for entry in log if isinstance(entry.get("time"), int | float)]
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    usual = statistics.median(gaps) if gaps else 0.0
    return sum(gap for gap in gaps if 0 <= gap <= max(60.0, 20 * usual))


def state(run: Run) -> str:
    """Returns whether a run is finished, or how far it has come and when it last wrote."""
    steps = [entry["step"] for kind in ("train", "evaluation") for entry in run.of_kind(kind)]
    done, asked = max(steps, default=0), run.config.get("settings", {}).get("num_train_steps")
    if run.results and run.results.get("num_train_steps") == asked:
        last = run.results.get("last_step")
        return f"finished, {asked:,} steps" if last is None else f"ended early, {last:,} of {asked:,} steps"
    path = os.path.join(run.folder, "log.jsonl")
    if not os.path.isfile(path):
        return "not begun"
    age = max(0.0, datetime.datetime.now().timestamp() - os.path.getmtime(path))
    status = "under way" if age < BUSY else "not finished: stopped or killed"
    return (
        f"step {done:,}"
        + (f" of {asked:,}" if isinstance(asked, int) else "")
        + f", {status}, last line {duration(age)} ago"
    )


def settings(run: Run) -> dict[str, object]:
    """Returns all that was set: flags, the numbers that hold, the network, the records."""
    config = dict(run.config)
    flags = {name: value for name, value in config.pop("flags", {}).items() if value is not None}
    return {**flags, **config.pop("settings", {}), **flatten(config)}


def flatten(values: dict, prefix: str = "") -> dict[str, object]:
    """Returns nested dictionaries with dotted names."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flatten(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = ", ".join(map(str, value)) if isinstance(value, list) else value
    return found
