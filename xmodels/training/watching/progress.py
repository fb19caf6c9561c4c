"""What a run tells while it works: the line on the terminal, and reading its log back."""

import json
import os

from data_pipelines.escaping import for_terminal

SHORT = {"tokens": "tok"}  # units of the log as the terminal shows them

GROUP_RATE, MOST_GROUPS = "/learning_rate", 4  # how the log names the rate of a group; how many groups fit into a line


def duration(seconds: float) -> str:
    """Returns 72 s, 4 min 10 s, 6 h 12 min."""
    seconds = int(seconds)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def short(value: float) -> str:
    """Returns four digits at most: 6.81, .17, 41.3k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:.1f}k"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}".removeprefix("0") if abs(value) < 1 else f"{value:.2f}"


def line(
    step: int, num_steps: int, means: dict[str, float], losses: list[str], rates: dict[str, float], unit: str = "tokens"
) -> str:  # fmt: skip
    """Returns `step 1200/100000 · loss 6.81 (masked_lm 6.12 next_sentence .69) · … · ETA 6 h 12 min`"""
    parts = [f"step {step}/{num_steps}"]
    named = " ".join(
        f"{name} {short(means[name])}" for name in losses if name in means
    )  # a stream may have had no step
    parts.append(f"loss {short(means['loss'])}" + (f" ({named})" if len(losses) > 1 else ""))
    parts += [f"{name} {short(means[name])}" for name in means if name.endswith("accuracy")]
    parts.append(f"lr {_learning_rates(rates)}")
    all_of_them, real = rates[f"{unit}_per_second"], rates[f"real_{unit}_per_second"]
    parts.append(f"{short(all_of_them)} {SHORT.get(unit, unit)}/s ({short(real)} real)")
    if "model_flops_utilisation" in rates:
        parts.append(f"MFU {rates['model_flops_utilisation']:.0%}")
    parts.append(f"data wait {rates['data_wait']:.0%}")
    parts.append(f"{rates['memory_gib']:.1f} GiB")
    parts.append(f"ETA {duration(rates['eta_seconds'])}")
    return " · ".join(parts)


def _learning_rates(rates: dict[str, float]) -> str:
    """Returns the learning rate, or that of each group of weights if there are few: `task 0.0005 layers 0.01 embedding 0`."""
    groups = {name.removesuffix(GROUP_RATE): rate for name, rate in rates.items() if name.endswith(GROUP_RATE)}
    if not 1 < len(groups) <= MOST_GROUPS:
        return f"{rates['learning_rate']:.2g}"
    return " ".join(f"{name} {rate:.2g}" for name, rate in groups.items())


def measure_of(name: str) -> str:
    """Returns what a value of the log measures, without the stream that leads its name where there are several."""
    return name.rsplit("/", 1)[-1]


def scores(means: dict[str, float], losses: list[str]) -> dict[str, float]:
    """Returns what an evaluation tells: losses and measures, without counts, and without the name of an only loss."""
    only = set(map(measure_of, losses))  # streams of several lengths have one
    left_out = {"skipped", *(only if len(only) == 1 else ())}
    return {n: v for n, v in means.items() if n not in left_out and not measure_of(n).startswith("real_")}


def read_log(path: str) -> list[dict]:
    """Returns the entries of a log.jsonl; lines that are none are left out, be they cut by a kill or damaged."""
    return split_log(path)[0]


def split_log(path: str) -> tuple[list[dict], list[bytes]]:
    """Returns the entries of a log.jsonl, and the whole lines that are none."""
    entries, others = [], []
    if os.path.isfile(path):
        with open(path, "rb") as file:
            for line in file:
                entry = _entry(line)
                if entry is not None:
                    entries.append(entry)
                elif line.endswith(b"\n"):  # a kill may cut the last one
                    others.append(line)
    return entries, others


def _entry(line: bytes) -> dict | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # ValueError also of bytes that are not UTF-8
        return None
    is_entry = isinstance(found, dict) and isinstance(found.get("kind"), str) and isinstance(found.get("step"), int)
    return found if is_entry else None


_quiet = False  # whether this process is a worker whose chief tells how the job goes


def print_status(text: str) -> None:
    """Prints at once, so that logs of jobs can be followed."""
    if not _quiet:
        print(for_terminal(text), flush=True)


def only_errors() -> None:
    """Silences this process from now on, since another tells the same; its errors are still shown."""
    global _quiet
    _quiet = True
