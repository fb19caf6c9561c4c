"""What other libraries know of the head of a task. `convert.py` in the folder of a task defines one as `HEAD`; other formats have
no place for the head of a task without.

A task whose head is written as that of another one has `WRITTEN_AS`, the other task, instead (`rank/convert.py`).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from xmodels.interfaces.reading import Reading
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig
from xmodels.tasks.base.task import Task

# What a head reads, which decides the names of its weights: a whole text, every token, each of several choices; or the ends of an
# answer, alone or an end beside each beginning.
SEQUENCE, TOKENS, CHOICE, SPAN, SPAN_BEAM = "sequence", "tokens", "choice", "span", "span_beam"
# `problem_type` of Hugging Face, which tells heads of whole texts apart. The first one is meant where nothing is said.
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label_classification", "multi_label_classification", "regression"


def logits_of_texts(task: Task, outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the logits of a task that reads one state per text."""
    return task.logits_of(task.reading.summary(outputs, batch))


def logits_of_tokens(task: Task, outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the logits of a task that reads the state of each token."""
    return task.head(outputs["sequence_output"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedHead:
    """The head of a task as other formats have it.

    Attributes:
        kind: what it reads, such as SEQUENCE.
        make: (configuration, number of classes, how the network reads texts) -> the task.
        logits: (task, outputs of the network, batch) -> what two checkpoints are compared by.
        problem: its `problem_type`, where the head reads whole texts.
        has_one_output: whether it gives a number in place of classes, which have names.
        axes: the end of the name of a weight -> its axes, of heads that are more than Dense layers (`conversion/axes.py`).
        check_labels: raises a CheckpointError where a converted head, of the given config.json, needs names of classes.
        own_flags: from a checkpoint, the flags that made its head into more than other formats have.
        refuse: (checkpoint, such flags, target) raises a CheckpointError where a format has no place for these.
        check_own: (checkpoint, target) raises a CheckpointError where a model folder of ours would not say all of the head.
    """

    kind: str
    make: Callable[[TokenConfig, int, Reading], Task]
    logits: Callable[[Task, Mapping[str, Any], Mapping[str, Any]], Any] = logits_of_texts
    problem: str | None = None
    has_one_output: bool = False
    axes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    check_labels: Callable[[Checkpoint, str], None] = lambda loaded, config_file: None
    own_flags: Callable[[Checkpoint], list[str]] = lambda loaded: []
    refuse: Callable[[Checkpoint, list[str], str], None] = lambda loaded, flags, target: None
    check_own: Callable[[Checkpoint, str], None] = lambda loaded, target: None

    @property
    def is_usual(self) -> bool:
        """Whether formats that do not tell what a head has learnt mean this one."""
        return self.problem in (None, SINGLE_LABEL)
