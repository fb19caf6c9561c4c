"""What may change between the beginning of a run and its resumption, and what happens then."""

import os

from data_pipelines.errors import CheckpointError, UsageError
from xmodels.models.folder import model_class
from xmodels.training.watching.progress import print_status

MOST_NAMED = 8  # differences that a message lists
LONGEST = 60  # characters of a value in it
SCHEDULE = "the new schedule applies, from the step that was reached"
ROUNDING = "results differ by rounding only"
SHARES = "dropout masks differ, all else differs by rounding only"
EFFECTS = {  # of what else is changed it is enough to say that it holds from now on
    "num_train_steps": SCHEDULE,
    "num_train_epochs": SCHEDULE,
    "num_warmup_steps": SCHEDULE,
    "warmup_proportion": SCHEDULE,
    "learning_rate": SCHEDULE,
    "train_batch_size": "reading continues after the examples that were already seen, with --length_buckets with the next epoch",
    "eval_file": "later epochs are scored on the new file, and compared with the best score on the old one",
    "data_dir": "nothing; the records were checked to be the same",
    "vocab_file": "nothing; the vocabulary was checked to be the same",
    "distribution_strategy": SHARES,
    "num_virtual_devices": SHARES,
    "jit_compile": ROUNDING,
    "step_engine": ROUNDING,
    "task_schedule": "stages are added after those of the run",
    "task_records": "their tasks are added",
    "eval_task_data": "scores are on other records",
    "task_data": "records of the tasks that the run already has were checked to be the same",
}


def check_origin(folder: str, init_checkpoint: str | None) -> None:
    """Refuses a run that would begin with its own weights: that is what resuming is for.

    Raises:
        UsageError: `init_checkpoint` lies in the folder of the run.
    """
    if not init_checkpoint or init_checkpoint.startswith("new:"):  # the name of a network, no path
        return
    run, origin = (os.path.realpath(path) for path in (folder, init_checkpoint.rpartition(":")[2]))
    if os.path.commonpath([run, origin]) == run:
        raise UsageError(
            f"--init_checkpoint={init_checkpoint} is the run of --model_dir itself. To resume it, give the command that "
            "began it. To begin another run with its weights, with a new optimizer and schedule, choose another "
            "--model_dir."
        )


def compare(folder: str, stored: dict, now: dict, structural: tuple[str, ...]) -> dict[str, tuple]:
    """Refuses what must not change on the way, and says what else did and what follows. Returns that: {name: (then, now)}.

    Args:
        stored, now: config.json of the run, and what it would hold of this command.
        structural: flags that must not change.
    """
    stored = _as_written_today(stored)
    before, after = ({**run.get("flags", {}), **run.get("settings", {})} for run in (stored, now))
    if "masking_rate" in after and "masking_rate" not in before and "masking_rate" not in (before.get("set") or ""):
        # Of a run that began when this was not stored.
        before["masking_rate"] = stored.get("records", {}).get("masked_lm_prob", after["masking_rate"])
    both = before.keys() & after.keys()  # static records have no share of masks to compare
    fatal = {n: (before[n], after[n]) for n in structural if n in both and before[n] != after[n]}
    fatal |= _differences(
        *({n: run.get(n) for n in now if n in stored and n not in ("flags", "settings")} for run in (stored, now))
    )
    if fatal:
        raise UsageError(
            f"--model_dir={folder}: this run was begun with other settings ({_list_changes(fatal)}). Give the old ones to "
            "resume it, or choose another --model_dir (and --init_checkpoint to start from its weights)."
        )
    if origin := after.get("init_checkpoint"):
        print_status(f"--init_checkpoint={origin} is where this run began; it now resumes from its own last state.")
    changed = {n: (before[n], v) for n, v in after.items() if n in before and before[n] != v}
    if changed:
        print_status(f"Resuming with changed flags: {_list_changes(changed)}.")
        effects: dict[str, list[str]] = {}
        for name in sorted(changed):
            effects.setdefault(EFFECTS.get(name, "the new value applies from now on"), []).append(name)
        print_status(
            "Effects: " + "; ".join(f"{', '.join(names)}: {effect}" for effect, names in effects.items()) + "."
        )
    return changed


def _as_written_today(stored: dict) -> dict:
    """Returns config.json of a run with the configuration of its network as this version writes it, if it can be read."""
    try:
        kind = model_class(stored["model"]).config_class
        return {**stored, "config": kind.from_json(stored["config"]).to_json()}
    except (CheckpointError, KeyError, TypeError, AttributeError):
        return stored


def summary(step: int, changed: dict[str, tuple]) -> str:
    """Returns what `compare` found when a run was resumed at a step, for its card."""
    return f"at step {step:,} " + ", ".join(f"{name} {now} ({then} before)" for name, (then, now) in changed.items())


def _differences(before: dict, after: dict, prefix: str = "") -> dict[str, tuple]:
    """Returns {dotted name: (value before, value after)} of what differs in nested dictionaries."""
    found = {}
    for name in sorted(set(before) | set(after)):
        pair = before.get(name), after.get(name)
        if all(isinstance(value, dict) for value in pair):
            found |= _differences(*pair, f"{prefix}{name}.")
        elif pair[0] != pair[1]:
            found[f"{prefix}{name}"] = pair
    return found


def _list_changes(changed: dict[str, tuple]) -> str:
    """Returns the first differences, each value cut to a length that can be read."""
    names = sorted(changed)
    parts = [
        "{}: {} then, {} now".format(n, *_cut_where_they_differ(*map(repr, changed[n]))) for n in names[:MOST_NAMED]
    ]
    return "; ".join(parts) + (f"; and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _cut_where_they_differ(first: str, second: str) -> tuple[str, str]:
    """Returns two texts, so that where they part can be seen."""
    same = len(os.path.commonprefix([first, second]))
    start = max(0, same - LONGEST // 3) if max(len(first), len(second)) > LONGEST else 0

    def cut(text: str) -> str:
        return ("…" if start else "") + text[start : start + LONGEST] + ("…" if len(text) > start + LONGEST else "")

    return cut(first), cut(second)
