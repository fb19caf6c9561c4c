"""Reads and writes the folder of a fine-tuned run: task.json, which describes the task, and backbone/, a model folder."""

import dataclasses
import inspect
import os
from types import ModuleType
from typing import Annotated, Any

from data_pipelines import checksums
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.files import write_json
from data_pipelines.options import settings
from data_pipelines.schema import Narrower, Place, convert, whole
from data_pipelines.text.tokenizer import Tokenizer
from xmodels import systems
from xmodels.interfaces.reading import Reading, plain_reading
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig
from xmodels.runs.loaded import BACKBONE_FOLDER, check_no_other, identify, load
from xmodels.tasks.base import find
from xmodels.tasks.base.find import task_class
from xmodels.tasks.base.task import Task

TASK_FILE = "task.json"
JOINT_FILE = "tasks.json"  # of a run with several tasks, each with a folder of its own
RUN_CONFIG = "config.json"  # of the run folder: its flags


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """The contents of task.json.

    Attributes:
        task: a folder of `xmodels/tasks`, such as `classify`.
        labels: the names of the classes, in the order of their ids; [] for tasks without labels.
        num_texts: texts per input, 1 or 2; 0 if unknown, so that both are accepted.
        max_sequence_length: including special tokens; longer inputs are truncated.
        prefix: the text before each source of tasks that generate text.
        settings: further settings of the task, which checks them itself.
    """

    task: Annotated[str, Narrower(lambda name: task_class(name) is not None, "a folder of xmodels/tasks")]
    labels: Annotated[list[str], Narrower(lambda names: len(set(names)) == len(names), "a list of different texts")]
    num_texts: whole(0, 2)
    max_sequence_length: whole(4)
    prefix: str = ""
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Head:
    """The head of a model folder without a task.json.

    Attributes:
        path: the folder.
        weights: {name without `objective.TASK.`: array}.
        config: of the network.
        labels: names of the classes; [] for tasks without.
        reading: how the network reads texts; None if it reads none.
    """

    path: str
    weights: dict
    config: TokenConfig
    labels: list[str]
    reading: Reading | None


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
    if task_class(task).names_labels:
        labels = folder.read_labels(path) or [f"LABEL_{index}" for index in range(len(own["head.bias"]))]
    head = Head(path, own, folder.read_config(path)[0], list(labels), identify(path).reading)
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
        raise CheckpointError(
            f"{run}: has no {TASK_FILE}, so it is a pretraining run, which has learnt no task. "
            "Fine-tune it first with `xmodels finetune`."
        )
    checksums.check(run, [TASK_FILE])
    found = convert(folder.read_json(path), TaskDescription, Place(path, error=CheckpointError))
    if task_class(found.task).names_labels and not (found.labels and found.num_texts):
        raise CheckpointError(f"{path}: --task={found.task} needs `labels` and `num_texts` 1 or 2; one is missing.")
    return found


@dataclasses.dataclass(frozen=True)
class Run:
    """A fine-tuned run in memory.

    Attributes:
        description: of the task.
        backbone: with its weights.
        heads: the weights of the task, {`objective.…`: array}, which `assign` assigns to a built task.
        tokenizer: of the network.
        reading: the `Reading` of texts; None if the network has none.
        path: the model folder.
    """

    description: TaskDescription
    backbone: Backbone
    heads: dict
    tokenizer: Tokenizer
    reading: object | None
    path: str

    def make_task(self, **options) -> Task:
        """Returns the task with the labels of task.json, without weights."""
        given, wanted = {"reading": self.reading} if self.reading else {}, task_class(self.description.task)
        learnt = {name.split(".")[1] for name in self.heads}
        others = sorted(name for name in learnt if task_class(name) is not None)
        if others and self.description.task not in others:
            raise CheckpointError(
                f"{self.path}: {TASK_FILE} says --task={self.description.task}, but the weights are of --task={others[0]}."
            )
        if given and not any("reading" in inspect.signature(each.__init__).parameters for each in wanted.__mro__):
            raise CheckpointError(
                f"{self.path}: {TASK_FILE} says --task={self.description.task}, which reads no texts, but the network does."
            )
        return wanted(self.backbone.config, self.description.labels, **given, **options)

    def assign(self, task: Task) -> None:
        """Assigns the weights of a built task. Raises a CheckpointError if they do not fit."""
        folder.assign(task.prefix, task, self.heads, os.path.join(self.path, folder.WEIGHTS))


def optimizer_of(source: str) -> str | None:
    """Returns the optimizer that trained a run, given its folder or the `backbone` in it; None if that is unknown."""
    return _config_of(source).get("settings", {}).get("optimizer")


def pretrained_by(source: str) -> str | None:
    """Returns the optimizer that pretrained the network of a run, given as in `optimizer_of`; None if that is unknown."""
    return _pretraining_of(source).get("settings", {}).get("optimizer")


def options_of(source: str, system: ModuleType) -> Any:
    """Returns the `Options` of the system with which the network of a run was pretrained, given as in `optimizer_of`, or the usual
    ones where that is unknown; None if the system has none.

    Raises:
        CheckpointError: what the run was told by `--set` is no longer understood.
    """
    kind = systems.options_class(system)
    own = {field.name for field in dataclasses.fields(kind)} if kind else ()
    try:
        given = settings.parse(_pretraining_of(source).get("flags", {}).get("set"))
        return kind and settings.apply(kind(), {name: value for name, value in given.items() if name in own})
    except UsageError as error:
        raise CheckpointError(
            f"{source}: the pretraining of this network was told what is not understood. {error}"
        ) from None


def _pretraining_of(source: str) -> dict:
    """The config.json of the pretraining that a chain of fine-tunings began with; empty if it is not there any more."""
    found, seen = _config_of(source), set()
    while found.get("job") in ("finetune", "multitask"):
        origin = found.get("flags", {}).get("init_checkpoint")
        if not origin or origin in seen:
            return {}
        seen.add(origin)
        found = _config_of(origin)
    return found


def _config_of(source: str) -> dict:
    """The config.json of a run, given its folder or the `backbone` in it; empty if there is none."""
    parent, name = os.path.split(os.path.abspath(source))
    for path in (source, *([parent] if name == BACKBONE_FOLDER else [])):
        if os.path.isdir(os.path.join(path, BACKBONE_FOLDER)) and os.path.isfile(os.path.join(path, RUN_CONFIG)):
            return folder.read_json(os.path.join(path, RUN_CONFIG))
    return {}


COLUMNS = "text_column", "text_pair_column", "label_column"  # of tables of texts


def given_columns(run: str) -> dict[str, str | None]:
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
    if labels is not None and list(labels) != description.labels:
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
