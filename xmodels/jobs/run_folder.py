"""The folder of a run explains itself: config, flags, environment, data, vocabulary, states, logs, model card."""

import importlib.metadata
import json
import os
import platform
import shutil

import keras
import tensorflow as tf

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.records import MANIFEST, write_json
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.folder import TOKENIZER, VOCABULARY, read_json, write_model
from xmodels.training import checkpoints

CONFIG = "config.json"
PACKAGES = ("tensorflow", "keras", "numpy", "tokenizers", "safetensors", "jieba", "xmodels")


def claim(folder: str, job: dict, flags: dict, structural: tuple[str, ...], resume: str) -> str | None:
    """Makes the folder of a run, or finds the state from which it goes on.

    Args:
        job: what is trained, for config.json; must be equal when a run is resumed.
        flags: all flags of the command.
        structural: flags that may not change when a run is resumed.
        resume: "auto" resumes where there is a whole state, "must" insists on one, "never" on an empty folder.

    Returns:
        The state to resume from, or None.

    Raises:
        UsageError: the folder holds something else, or flags changed that must not.
        CheckpointError: there is nothing to resume from.
    """
    states = checkpoints.complete(os.path.join(folder, "checkpoints"))
    config = os.path.join(folder, CONFIG)
    if resume == "must" and not states:
        raise CheckpointError(f"--model_dir={folder}: --resume=must found no whole state below {folder}/checkpoints.")
    if states and resume == "never":
        raise UsageError(f"--model_dir={folder}: holds a run already. Use --resume=auto to go on, or another folder.")
    if os.path.isfile(config):
        _compare(folder, read_json(config), job, flags, structural, bool(states))
    elif os.path.isdir(folder) and os.listdir(folder):
        raise UsageError(f"--model_dir={folder}: is not empty and not a run; choose another folder.")
    os.makedirs(folder, exist_ok=True)
    write_json(config, {**job, "flags": flags})
    with open(os.path.join(folder, "flags.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"--{name}={value}\n" for name, value in flags.items() if value is not None)
    write_json(os.path.join(folder, "environment.json"), environment())
    return states[-1] if states else None


def _compare(folder: str, stored: dict, job: dict, flags: dict, structural, resuming: bool) -> None:
    before = stored.get("flags", {})
    changed = {n: (before.get(n), v) for n, v in flags.items() if n in before and before[n] != v}
    changed |= {n: (stored.get(n), v) for n, v in job.items() if stored.get(n) != v}
    if not resuming or not changed:
        return

    def listed(names):
        return "; ".join(f"{n}: {changed[n][0]!r} then, {changed[n][1]!r} now" for n in names)

    fatal = sorted(n for n in changed if n in structural or n in job)
    if fatal:
        raise UsageError(
            f"--model_dir={folder}: this run was begun with other settings ({listed(fatal)}). Give the old ones to "
            "resume it, or choose another --model_dir (and --init_checkpoint to start from its weights)."
        )
    print(f"Resuming with changed flags: {listed(sorted(changed))}.")


def environment() -> dict:
    """Versions and devices, to explain a result later."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "devices": [device.name for device in tf.config.list_logical_devices()],
        "keras_backend": keras.backend.backend(),
        "packages": versions,
    }


def write_data(folder: str, vocabulary: Vocabulary, tokenizer: dict, manifest_folder: str | None) -> None:
    """Copies what the run needs to know of its data: vocabulary, tokenizer settings, manifest."""
    with open(os.path.join(folder, VOCABULARY), "w", encoding="utf-8") as file:
        file.write(vocabulary.text())
    write_json(os.path.join(folder, TOKENIZER), tokenizer)
    if manifest_folder is not None:
        shutil.copyfile(os.path.join(manifest_folder, MANIFEST), os.path.join(folder, "data_manifest.json"))


def write_backbone(folder: str, backbone, objective, vocabulary: Vocabulary, tokenizer: dict) -> str:
    """Writes `backbone/`, the model folder that is handed over, in one piece. Returns its path."""
    path = os.path.join(folder, "backbone")
    for leftover in (f"{path}.partial", f"{path}.old"):
        shutil.rmtree(leftover, ignore_errors=True)
    os.makedirs(f"{path}.partial")
    write_model(f"{path}.partial", backbone, objective, vocabulary.text(), tokenizer)
    if os.path.isdir(path):
        os.replace(path, f"{path}.old")
    os.replace(f"{path}.partial", path)
    shutil.rmtree(f"{path}.old", ignore_errors=True)
    return path


def write_model_card(folder: str, title: str, facts: dict[str, str], results: dict[str, float]) -> None:
    """Writes model_card.md: what this model is, how it was made, what it scored."""
    lines = [f"# {title}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    if results:
        lines += ["", "## Results", "", "| measure | value |", "| --- | --- |"]
        lines += [f"| {name} | {value:.4f} |" for name, value in results.items()]
    lines += [
        "",
        "The exact flags stand in `flags.txt`, versions and devices in `environment.json`, the course of training in",
        "`log.jsonl` and `tensorboard/`. The model repeats the biases of its training text; measure it on your own data",
        "before you rely on it.",
    ]
    with open(os.path.join(folder, "model_card.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def to_json(value) -> str:
    """Compact JSON, for tables."""
    return json.dumps(value, ensure_ascii=False)
