"""Reads and writes the folder of a fine-tuned run: task.json, which describes the task, and backbone/, a model folder; and opens what
predicts or writes texts."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from data_pipelines import checksums
from data_pipelines.errors import CheckpointError
from data_pipelines.files import write_json
from data_pipelines.schema import Location, convert
from xmodels.conversion import word_vectors
from xmodels.interfaces.loaded import Identity, Loaded
from xmodels.interfaces.reading import plain_reading
from xmodels.models import folder
from xmodels.models.folder import BACKBONE_FOLDER
from xmodels.runs.loaded import RUN_STATES, check_no_other, identify, load
from xmodels.tasks.base import find
from xmodels.tasks.base.description import JOINT_FILE, TASK_FILE, Head, Run, TaskDescription
from xmodels.tasks.base.find import load_part, task_class
from xmodels.tasks.base.generation import Generator, refusal_error
from xmodels.tasks.base.origin import RUN_CONFIG
from xmodels.tasks.base.task import Task


def write_task(run: str, task: Task, num_texts: int, max_sequence_length: int, kept: tuple[str, ...] = ()) -> None:
    """Writes task.json into the folder `run`, which must exist.

    Args:
        kept: the settings that stay as the task.json that is there has them: those that an evaluation set has chosen.
    """
    labels = list(getattr(task, "label_names", ()))
    description = TaskDescription(
        task.label, labels, num_texts, max_sequence_length, getattr(task, "prefix_of_texts", ""),
        dict(getattr(task, "settings", {})),
    )  # fmt: skip
    if kept:
        before = read_task(run).settings
        chosen = {name: before[name] for name in kept if name in before}
        description = dataclasses.replace(description, settings=description.settings | chosen)
    write_description(run, description)


def choose_settings(run: str, settings: dict) -> None:
    """Updates `settings` in the task.json of a run."""
    if settings:
        found = read_task(run)
        write_description(run, dataclasses.replace(found, settings=found.settings | settings))


def write_description(run: str, description: TaskDescription) -> None:
    """Writes task.json."""
    values = dataclasses.asdict(description)
    values = {name: value for name, value in values.items() if name not in ("prefix", "settings") or value}
    write_json(os.path.join(run, TASK_FILE), values)
    checksums.record(run, [TASK_FILE])


def task_of(path: str) -> str | None:
    """Returns the task of a run; for one that was not fine-tuned, the task with which its system generates text. None for a
    published checkpoint that generates none.

    Raises:
        CheckpointError: as `read_task`.
    """
    if not os.path.isfile(os.path.join(path, TASK_FILE)):
        try:
            found = identify(path)
        except CheckpointError:
            found = None  # the error is raised when the checkpoint is opened
        if found and found.writing:
            return found.writing.task
        if found and not os.path.isdir(found.path):
            return None  # a published checkpoint, whose head tells when it is opened
    return read_task(path).task


def task_of_model(path: str) -> TaskDescription | None:
    """Describes the task of a model folder with a head that the `head.py` of a task knows, as `convert_checkpoint` writes it; None
    for others.

    Such a folder does not say how many texts an input has, so one and two are accepted; classes without names are called
    LABEL_0 and so on.
    """
    weights = os.path.join(path, folder.WEIGHTS)
    if not os.path.isfile(weights):
        return None
    values = folder.read_weights(weights)
    has = {name.split(".")[1] for name in values if name.startswith("objective.") and ".head." in name}
    task = next((name for name in find.names("head") if name in has), None)
    if task is None:
        return None
    start, labels = f"objective.{task}.", []
    own = {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}
    run = description_of_run(path)
    head = Head(path, own, folder.read_config(path)[0], labels, identify(path).reading, run)
    if task_class(task).names_labels:
        labels += folder.read_labels(path) or [f"LABEL_{index}" for index in range(head.num_outputs)]
    return find.own(task, "head").describe(head)


def description_of_run(path: str) -> TaskDescription | None:
    """Describes the task of the run whose network a model folder is; None if it is no part of a run."""
    run = os.path.dirname(os.path.abspath(path))
    is_part = os.path.basename(os.path.abspath(path)) == BACKBONE_FOLDER and os.path.isfile(
        os.path.join(run, TASK_FILE)
    )
    return read_task(run) if is_part else None


def read_task(run: str) -> TaskDescription:
    """Reads task.json, or describes the head of a model folder that has none.

    Raises:
        CheckpointError: `run` is not a folder, was not fine-tuned, or its task.json is damaged.
    """
    path = os.path.join(run, TASK_FILE)
    if not os.path.isdir(run):
        raise CheckpointError(f"{run}: no such run folder.")
    if not os.path.lexists(path) and (description := task_of_model(run)):
        return description
    if not os.path.lexists(path) and os.path.lexists(joint := os.path.join(run, JOINT_FILE)):
        names = ", ".join(os.path.join(run, name) for name in folder.read_json(joint))
        raise CheckpointError(f"{run}: has learnt several tasks. Name the folder of one: {names}.")
    if not os.path.lexists(path):
        check_no_other(run)
        if not any(os.path.lexists(os.path.join(run, name)) for name in (BACKBONE_FOLDER, folder.CONFIG, RUN_STATES)):
            held = ", ".join(sorted(os.listdir(run))[:5]) or "nothing"
            raise CheckpointError(
                f"{run}: is no run and no model folder; it holds {held}. Name the --model_dir of a training."
            )
        raise CheckpointError(
            f"{run}: has no {TASK_FILE}, so it is a pretraining run, which has learnt no task. "
            "Fine-tune it first with `xmodels finetune`."
        )
    checksums.check(run, [TASK_FILE])
    found = convert(folder.read_json(path), TaskDescription, Location(path, error=CheckpointError))
    if task_class(found.task).names_labels and not (found.labels and found.num_texts):
        raise CheckpointError(f"{path}: --task={found.task} needs `labels` and `num_texts` 1 or 2; one is missing.")
    return found


COLUMNS = "text_column", "text_pair_column", "label_column"  # of tables of texts


def read_given_columns(run: str) -> dict[str, str | None]:
    """Returns {flag: value} of the columns and of the relevant label that `finetune` was given; None for those not given.

    A task may have further flags that end in `_column`.
    """
    path = os.path.join(run, RUN_CONFIG)
    stored = folder.read_json(path).get("flags", {}) if os.path.isfile(path) else {}
    further = {name for name in stored if name.endswith("_column")}
    return {name: stored.get(name) for name in {*COLUMNS, "relevant_label"} | further}


def read_run(run: str) -> Run:
    """Reads a run of `xmodels finetune`.

    Raises:
        CheckpointError: `run` was not fine-tuned, or its files are damaged or do not match.
    """
    description = read_task(run)
    path = os.path.join(run, BACKBONE_FOLDER)
    if not os.path.isfile(os.path.join(run, folder.WEIGHTS)) and not os.path.isdir(path):
        raise CheckpointError(
            f"{run}: this fine-tuning was interrupted and has no {BACKBONE_FOLDER}/ yet. Finish it with "
            f"`xmodels finetune --flagfile={os.path.join(run, 'flags.txt')}`."
        )
    loaded = load(run)
    config, labels = loaded.backbone.config, folder.read_labels(loaded.path)
    # Names beside a head whose answers have none, such as LABEL_0 of Hugging Face, say nothing.
    if labels is not None and task_class(description.task).names_labels and list(labels) != description.labels:
        raise CheckpointError(
            f"{os.path.join(run, TASK_FILE)}: its `labels` are not those of {os.path.join(loaded.path, folder.LABELS)}, so it is "
            "not known which name belongs to which class. Copy the two again."
        )
    if not config.reads(description.max_sequence_length):
        raise CheckpointError(
            f"{os.path.join(run, TASK_FILE)}: `max_sequence_length` is {description.max_sequence_length}, but the "
            f"network reads at most {config.longest} tokens (`max_sequence_length` in {folder.CONFIG})."
        )
    reading = loaded.reading
    if reading is None and (loaded.pooling or task_class(description.task).reads_states):
        reading = plain_reading(loaded.network, loaded.tokenizer.vocabulary, bool(loaded.writing))
        reading = reading.with_pooling(loaded.pooling)
    return Run(description, loaded.backbone, loaded.heads, loaded.tokenizer, reading, loaded.path)


class Source:
    """A run, a model folder or somebody else's checkpoint by its name, as tasks open it: a `tasks.base.source.Source`."""

    def __init__(self, path: str):
        self.path = path

    def identify(self) -> Identity:
        """Returns what it holds; reads no weights."""
        return identify(self.path)

    def load(self, *change) -> Loaded:
        """Returns it in memory; arguments as of `runs.loaded.load`."""
        return load(self.path, *change)

    def description(self) -> TaskDescription | None:
        """Returns the contents of its task.json; None if it has none."""
        return read_task(self.path) if os.path.isfile(os.path.join(self.path, TASK_FILE)) else None

    def columns(self) -> dict[str, str | None]:
        """Returns the columns that `finetune` was given, as `read_given_columns`."""
        return read_given_columns(self.path)

    def word_vectors(self) -> tuple[Sequence[str], np.ndarray]:
        """Returns words and their vectors, as `conversion.word_vectors.read`."""
        return word_vectors.read(self.path)


def load_predictor(path: str):
    """Returns the predictor of a fine-tuned run, or of a model folder that holds a head such as a classifier.

    Raises:
        CheckpointError: the folder was not fine-tuned, its task generates text, or its files are damaged or do not match.
    """
    module = load_part(read_task(path).task, "answer")
    if getattr(module, "GENERATOR", None):
        raise CheckpointError(
            f"{path}: answers texts with texts. `xmodels translate` writes them, and `xmodels evaluate` scores them."
        )
    return module.Predictor(read_run(path), read_given_columns(path))


def load_generator(path: str, **numbers):
    """Returns the generator of a run or model folder, of the class that the task of its system defines.

    Args:
        numbers: further arguments of the `load` of that task.

    Raises:
        CheckpointError: the folder is incomplete, or its system does not generate text.
    """
    return _writer(path).load(Source(path), **numbers)


def generator_class(path: str) -> type[Generator]:
    """Returns the class of the result of `load_generator`, without reading weights."""
    return _writer(path).GENERATOR


def _writer(path: str):
    """Returns the `answer` file of the task with which the system of a checkpoint generates."""
    found = identify(path)
    if found.writing is None:
        raise refusal_error(found)
    return load_part(found.writing.task, "answer")


def load_answerer(path: str, task: str | None):
    """Returns what answers for a run: its generator where its task writes texts, else its predictor."""
    if getattr(load_part(task, "answer"), "GENERATOR", None):
        return load_part(task, "answer").load(Source(path))
    return load_predictor(path)
