"""Averages the last states of a run (Vaswani et al., 2017, section 6.1): at its end, or later into a model folder."""

import os
import shutil

from data_pipelines import checksums
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.files import temporary_name
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.tokenizer_settings import ASSETS
from xmodels import systems
from xmodels.jobs.average_checkpoints.options import Options
from xmodels.layers.poolings import PUBLISHED
from xmodels.models.adapters import is_of_adapter
from xmodels.models.folder import TOKENIZER, assign, model_class, write_values
from xmodels.runs import folder as run_folder
from xmodels.training.states import checkpoints
from xmodels.training.states.averaging import mean_of_files
from xmodels.training.watching.progress import print_status


def check(ema_decay: float, last: int, interval: int = 0) -> None:
    """Raises a UsageError where two averages are asked for."""
    asked = {"ema_decay": ema_decay, "average_checkpoints": last, "nonmonotonic_average": interval}
    given = [f"--{name}={value:g}" for name, value in asked.items() if value]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} both say what is handed over; choose one.")


def hand_over_weights(model_dir: str, learner, last: int) -> str:
    """Gives a learner whose run is over the weights to hand over, and tells which these are."""
    if not last:
        return learner.apply_average() or "of the last step"
    states = _states(model_dir)[-last:]
    values = _mean(states)
    for prefix, part in (("backbone", learner.backbone), (learner.objective.prefix, learner.objective)):
        assign(prefix, part, values, model_dir)
    description = f"mean of the states of {_steps(states)}"
    print_status(f"Handed over: {description}." + (f" There were no {last}." if len(states) < last else ""))
    return description


def average_checkpoints(options: Options) -> str:
    """Writes the mean of the last states of a run as a model folder; returns its path."""
    model_dir, last, output_dir = options.model_dir, options.last, options.output_dir
    states = _states(model_dir)
    if len(states) < last:
        raise CheckpointError(
            f"--model_dir={model_dir}: holds {len(states)} whole state(s), not {last}. Lower --last, or train with "
            f"--keep_checkpoint_max={last}."
        )
    if os.path.exists(output_dir):
        raise UsageError(f"--output_dir={output_dir}: exists already; choose another.")
    checksums.check(model_dir, [TOKENIZER, *ASSETS])
    job = run_folder.read_config(model_dir)
    if not {"model", "config"} <= set(job):
        raise CheckpointError(
            f"{model_dir}/{run_folder.CONFIG}: names no `model` and `config`, so it is not of a training."
        )
    config = model_class(job["model"]).config_class.from_json(job["config"], os.path.join(model_dir, run_folder.CONFIG))
    system = systems.of_model(job.get("system") or job.get("flags", {}).get("system"), job["model"], model_dir)
    system = system and systems.name_of(system)
    states = states[-last:]
    for state in states:
        checkpoints.check_run(state, job.get("run_id"))
    values = _mean(states)
    tokenizer, partial = open_tokenizer(model_dir), temporary_name(os.path.normpath(output_dir))
    os.makedirs(partial)
    described = tokenizer.files(), tokenizer.describe(), job.get("labels"), system, _pooling(job)
    try:
        write_values(partial, job["model"], config, values, *described)
        os.replace(partial, output_dir)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    print_status(f"{output_dir}: the mean of the states of {_steps(states)}; a model folder, for --init_checkpoint.")
    return output_dir


def _pooling(job: dict) -> str | None:
    """Returns what the head of a fine-tuning reads, as its model folder says it."""
    found = job.get("flags", {}).get("pooling")
    return None if found in (None, PUBLISHED) else found


def _states(model_dir: str) -> list[str]:
    """Returns the whole states of a run, oldest first. Raises a CheckpointError where there is none."""
    states = checkpoints.complete(os.path.join(model_dir, "checkpoints"))
    if not states:
        raise CheckpointError(f"--model_dir={model_dir}: holds no state of a run below {model_dir}/checkpoints.")
    return states


def _mean(states: list[str]):
    """Returns the mean of the weights of states. Raises a CheckpointError that names a file that is damaged."""
    for state in states:
        if damaged := checkpoints.damaged_file(state):
            raise CheckpointError(f"{damaged}: damaged, so it cannot be averaged. Remove {state}, or lower the number.")
    found = mean_of_files([os.path.join(state, checkpoints.WEIGHTS) for state in states])
    if any(map(is_of_adapter, found)):
        raise CheckpointError(
            f"{states[-1]}: holds adapters (--lora_rank) and not the network beside them, so no network can be made of it. Take "
            "`backbone/` of the run."
        )
    return found


def _steps(states: list[str]) -> str:
    return "steps " + ", ".join(f"{checkpoints.step_of(state):,}" for state in states)
