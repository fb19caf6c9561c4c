"""The task of a run in memory: what task.json says, a head without one, and a fine-tuned network with its head."""

import dataclasses
import inspect
import os
from typing import Annotated, Any

from data_pipelines.errors import CheckpointError
from data_pipelines.schema import Constraint, Location, convert, whole
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.interfaces.reading import Reading
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig
from xmodels.tasks.base.find import task_class
from xmodels.tasks.base.task import Task

TASK_FILE = "task.json"
JOINT_FILE = "tasks.json"  # of a run with several tasks, each with a folder of its own
LONGEST = 1024  # tokens of a text, where nothing says how many a network without positions is to read


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

    task: Annotated[str, Constraint(lambda name: task_class(name) is not None, "a folder of xmodels/tasks")]
    labels: Annotated[list[str], Constraint(lambda names: len(set(names)) == len(names), "a list of different texts")]
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
        run: the task of the run that the folder is part of; None if it is part of none.
    """

    path: str
    weights: dict
    config: TokenConfig
    labels: list[str]
    reading: Reading | None
    run: TaskDescription | None = None

    @property
    def longest(self) -> int:
        """The tokens of a text that are read: all that the network has positions for, `LONGEST` where it reads any number."""
        return getattr(self.config, "max_sequence_length", LONGEST)

    @property
    def num_outputs(self) -> int:
        """What the head answers with, such as classes."""
        return self.weights["head.kernel"].shape[-1]


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

    def settings(self, settings_class: type) -> Any:
        """Returns the settings of task.json as a dataclass. Raises a CheckpointError that names the one that is none."""
        return convert(self.description.settings, settings_class, Location(TASK_FILE).at("settings"))

    def assign(self, task: Task) -> None:
        """Assigns the weights of a built task. Raises a CheckpointError if they do not fit."""
        folder.assign(task.prefix, task, self.heads, os.path.join(self.path, folder.WEIGHTS))
