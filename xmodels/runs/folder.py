"""The folder of a run explains itself: config, flags, environment, data, vocabulary, states, logs, model card."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import uuid
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from data_pipelines import checksums
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.escaping import for_markdown
from data_pipelines.files import check_own, is_temporary, remove_own, temporary_name, whole_file, write_json
from data_pipelines.lock import LOCK
from data_pipelines.records.manifest import MANIFEST
from data_pipelines.schema import Count, Location, convert
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.models.folder import CHECKED_FILES, TOKENIZER, read_json, write_model
from xmodels.runs import changed_flags
from xmodels.training.states import checkpoints
from xmodels.training.watching.progress import print_status

CONFIG, RESULTS, BACKBONE = "config.json", "results.json", "backbone"
OWN_FOLDERS = ("checkpoints", "tensorboard", "nonfinite", "pictures", BACKBONE)  # a run writes into them
MODEL_FILES = (*CHECKED_FILES, checksums.FILE)  # of the model folder that is handed over
PACKAGES = ("tensorflow", "keras", "numpy", "tokenizers", "safetensors", "jieba", "xmodels")


@dataclasses.dataclass(frozen=True)
class Claim:
    """What stands in the folder of a run that begins.

    Attributes:
        state: the state to resume from, or None.
        results: what the run scored, where it is finished already and nothing is left to do.
        run_id: tells its states from those of other runs.
        resumed: what changed each time that it was resumed with other numbers, in words.
    """

    state: str | None
    results: dict[str, float] | None
    run_id: str | None = None
    resumed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Stored:
    """What the config.json of a run says beside what is trained.

    Attributes:
        job: "pretrain" or "finetune".
        model: the file of `xmodels/models`.
        config: the numbers of the network.
        flags, settings: as `claim` takes them.
        run_id: absent in runs of older versions.
        resumed: as of `Claim`; absent where no number changed.
    """

    job: str
    flags: dict
    settings: dict
    model: str | None = None
    config: dict | None = None
    run_id: str | None = None
    resumed: list[str] | None = None


def read_config(folder: str) -> dict:
    """Returns the config.json of a run.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    path = os.path.join(folder, CONFIG)
    values = read_json(path)
    own = {
        name: value for name, value in values.items() if name in {field.name for field in dataclasses.fields(Stored)}
    }
    convert(
        own,
        Stored,
        Location(path, error=CheckpointError, advice="Copy it again, or begin anew in another --model_dir."),
    )
    return values


@dataclasses.dataclass(frozen=True)
class _Results:
    """What results.json says."""

    num_train_steps: Count
    kept_step: Count
    results: dict[str, float]
    last_step: Count | None = None


def existing(
    folder: str, job: dict, flags: dict, settings: dict, structural: tuple[str, ...], resume: str,
    phases: tuple[str, ...] = (),
) -> Claim:  # fmt: skip
    """Returns what a folder holds for a run that is about to begin; changes nothing. Arguments and errors are those of `claim`."""
    for name in (*OWN_FOLDERS, *phases):
        check_own(os.path.join(folder, name))
    changed_flags.check_origin(folder, flags.get("init_checkpoint"))
    states = checkpoints.complete(os.path.join(folder, "checkpoints"))
    now = {**job, "flags": flags, "settings": settings}
    config = os.path.join(folder, CONFIG)
    if resume == "must" and not states:
        raise CheckpointError(f"--model_dir={folder}: --resume=must found no whole state below {folder}/checkpoints.")
    if states and resume == "never":
        raise UsageError(f"--model_dir={folder}: holds a run already. Use --resume=auto to go on, or another folder.")
    run_id, resumed = None, ()
    if os.path.lexists(config):
        stored = read_config(folder)
        run_id, resumed = stored.get("run_id"), tuple(stored.get("resumed") or ()) if states else ()
        if states:
            changed = changed_flags.compare(folder, stored, now, structural)
            changed.pop("model_dir", None)  # as of a folder that was moved
            resumed += (changed_flags.summary(checkpoints.step_of(states[-1]), changed),) if changed else ()
    elif os.path.isdir(folder) and [
        name for name in os.listdir(folder) if name not in (LOCK, *phases) and not is_temporary(name)
    ]:
        raise UsageError(f"--model_dir={folder}: is not empty and not a run; choose another folder.")
    if states and checkpoints.step_of(states[-1]) > settings["num_train_steps"]:
        raise UsageError(
            f"--model_dir={folder}: has {checkpoints.step_of(states[-1])} steps already, more than the "
            f"{settings['num_train_steps']} that are asked for. Give more steps or epochs, or another --model_dir."
        )
    if (results := _read_finished_results(folder, settings["num_train_steps"])) is not None:
        return Claim(states[-1] if states else None, results, run_id)
    return Claim(checkpoints.newest(os.path.join(folder, "checkpoints"), run_id), None, run_id, resumed)


def claim(
    folder: str, job: dict, flags: dict, settings: dict, structural: tuple[str, ...], resume: str,
    phases: tuple[str, ...] = (),
) -> Claim:  # fmt: skip
    """Makes the folder of a run, or finds what it holds already.

    Args:
        job: what is trained, for config.json; must be equal when a run is resumed.
        flags: all flags of the command, as given.
        settings: the flags that have defaults of the system, with the values that hold; `num_train_steps` among them.
        structural: flags that may not change when a run is resumed.
        resume: "auto" resumes where there is a whole state, "must" insists on one, "never" on an empty folder.
        phases: folders of runs below that of the run, which are finished before it begins.

    Raises:
        UsageError: the folder holds something else, or flags changed that must not.
        CheckpointError: there is nothing to resume from.
    """
    found = existing(folder, job, flags, settings, structural, resume, phases)
    if found.results is not None:
        return found
    found = dataclasses.replace(found, run_id=found.run_id or uuid.uuid4().hex[:16])
    os.makedirs(folder, exist_ok=True)
    for entry in os.scandir(folder):
        if entry.is_file() and is_temporary(entry.name):  # of a run that was killed
            os.remove(entry.path)
    more = {"resumed": list(found.resumed)} if found.resumed else {}
    write_json(
        os.path.join(folder, CONFIG), {**job, "run_id": found.run_id, "flags": flags, "settings": settings, **more}
    )
    with whole_file(os.path.join(folder, "flags.txt"), "w") as file:
        file.writelines(f"--{name}={value}\n" for name, value in flags.items() if value is not None)
    write_json(os.path.join(folder, "environment.json"), environment())
    return found


def _read_finished_results(folder: str, num_steps: int) -> dict[str, float] | None:
    """Returns the results of a run that has done all its steps and handed over its network."""
    path = os.path.join(folder, RESULTS)
    if not os.path.isfile(path) or not os.path.isdir(os.path.join(folder, "backbone")):
        return None
    place = Location(path, error=CheckpointError, advice="Remove it; the command that began the run writes it again.")
    stored = convert(read_json(path), _Results, place)
    last = os.path.join(folder, "checkpoints", f"step_{stored.last_step or num_steps:08d}")
    return stored.results if stored.num_train_steps == num_steps and os.path.isdir(last) else None


def write_results(
    folder: str, num_steps: int, kept_step: int, results: dict[str, float], last_step: int | None = None
) -> None:
    """Writes results.json, the last file of a run: what stands in `backbone/`, and what it scored.

    Args:
        last_step: where the run ended, if that was before all its steps were done.
    """
    values = {"num_train_steps": num_steps, "kept_step": kept_step, "results": results}
    early = {} if last_step in (None, num_steps) else {"last_step": last_step}
    write_json(os.path.join(folder, RESULTS), values | early)


def print_finished(folder: str, more: str) -> None:
    """Tells that a command has nothing left to do; `more` is the flag that would give it more steps."""
    print_status(
        f"Already finished: the network is in {folder}/backbone, its scores in {folder}/model_card.md. To train it "
        f"further raise {more}; to train anew choose another --model_dir."
    )


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


def write_data(folder: str, tokenizer: Tokenizer, manifest_folder: str | None) -> None:
    """Copies what the run needs to know of its data: vocabulary, tokenizer settings, manifest; with their checksums."""
    for name, contents in tokenizer.files().items():
        with whole_file(os.path.join(folder, name)) as file:
            file.write(contents)
    write_json(os.path.join(folder, TOKENIZER), tokenizer.describe())
    checksums.record(folder, [*tokenizer.files(), TOKENIZER])
    if manifest_folder is not None:
        with open(os.path.join(manifest_folder, MANIFEST), "rb") as source:
            with whole_file(os.path.join(folder, "data_manifest.json")) as file:
                shutil.copyfileobj(source, file)


def write_backbone(folder: str, backbone, objective, tokenizer: Tokenizer, system: str | None = None) -> str:
    """Writes `backbone/`, the model folder that is handed over, in one piece. Returns its path."""
    path = os.path.join(folder, BACKBONE)
    check_own(path)
    for name in os.listdir(folder):
        if name.startswith(f"{BACKBONE}.") and is_temporary(name):  # of a run that was killed
            remove_own(os.path.join(folder, name), MODEL_FILES)
    written, before = temporary_name(path), temporary_name(path)
    os.makedirs(written)
    write_model(written, backbone, objective, tokenizer.files(), tokenizer.describe(), system)
    if os.path.isdir(path):
        os.replace(path, before)
    os.replace(written, path)
    for name in set(os.listdir(before)) - set(MODEL_FILES) if os.path.isdir(before) else ():  # what is not ours stays
        os.replace(os.path.join(before, name), os.path.join(path, name))
    remove_own(before, MODEL_FILES)
    return path


def write_model_card(
    folder: str, title: str, facts: Mapping[str, str], results: Mapping[str, float],
    numbers: Sequence[tuple[str, object, str]] = (),
) -> None:  # fmt: skip
    """Writes model_card.md: what this model is, how it was made, what it scored.

    Args:
        numbers: (name, value, where it comes from) of all that was set.
    """
    facts = {**facts, **_changes(folder)}
    lines = [f"# {for_markdown(title)}", "", "| | |", "| --- | --- |"]
    lines += [f"| {for_markdown(name)} | {for_markdown(str(value))} |" for name, value in facts.items()]
    if results:
        lines += ["", "## Results", "", "| measure | value |", "| --- | --- |"]
        lines += [f"| {for_markdown(name)} | {value:.4f} |" for name, value in results.items()]
    if numbers:
        lines += ["", "## Numbers", "", "| name | value | from |", "| --- | --- | --- |"]
        lines += [f"| {' | '.join(for_markdown(str(each)) for each in row)} |" for row in numbers]
    lines += [
        "",
        "The exact flags stand in `flags.txt`, versions and devices in `environment.json`, the course of training in",
        "`log.jsonl` and `tensorboard/`. The model repeats the biases of its training text; measure it on your own data",
        "before you rely on it.",
    ]
    with whole_file(os.path.join(folder, "model_card.md"), "w") as file:
        file.write("\n".join(lines) + "\n")


def _changes(folder: str) -> dict[str, str]:
    """Returns what changed each time that the run went on with other numbers."""
    path = os.path.join(folder, CONFIG)
    resumed = read_config(folder).get("resumed") or () if os.path.isfile(path) else ()
    return {"resumed with other numbers": "; ".join(resumed)} if resumed else {}


def to_json(value) -> str:
    """Returns compact JSON, for tables."""
    return json.dumps(value, ensure_ascii=False)
