"""What `finetune` must know of a task. A file in `finetunings` is a task: adding it (and its name in `launch/finetune.py`) adds it.

Such a file defines one `Finetuning`. What the network then answers is a file of `xmodels/tasks` of the same name, and how
it is scored one of `xmodels/jobs/evaluations`.
"""

import dataclasses
import importlib

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion.formats import Loaded
from xmodels.interfaces.reading import BERT_NUMBERS
from xmodels.models.backbone import ModelConfig
from xmodels.objectives.base import Objective
from xmodels.tasks.base import Task


@dataclasses.dataclass(frozen=True)
class Data:
    """Labelled examples as arrays.

    Attributes:
        source: what is learnt from.
        held: what is scored, by the names that results have: "evaluation", which chooses the best epoch, and "test".
        labels: the names of the labels, in the order of their ids; empty where they have none.
        num_texts: in an example; 0 where that differs.
        told: what is said of the data when training begins, such as "3 labels".
    """

    source: ArraySource
    held: dict[str, ArraySource]
    labels: list[str]
    num_texts: int
    told: str


# Flags that some task needs, with what they are where nobody gives them.
OWN_FLAGS = {
    "tasks": None,
    "questions_per_task": None,
    "held_out": 0.0,
    "model_config_file": None,
    "ponder_weight": 0.01,
}


class Finetuning:
    """One task, from files to an objective. Subclasses say what differs.

    Args:
        options: the `Options` of `xmodels.jobs.finetune`.

    Attributes:
        title: of the model card.
        keep: the features that the network and its objective read.
        own_flags: the flags that only this task has a use for, of those in `OWN_FLAGS`.
        chosen_by: the metric by which the best epoch is chosen; it stands in the results beside the loss.
        numbers: what holds where flags say nothing.
    """

    title: str
    keep: tuple[str, ...]
    own_flags: tuple[str, ...] = ()
    chosen_by = "accuracy"
    numbers = BERT_NUMBERS

    def __init__(self, options):
        self.options = options

    def begin(self) -> tuple[Loaded, Tokenizer] | None:
        """A new network, without weights, and a tokenizer; None where both come from --init_checkpoint."""
        return None

    def prepare(self, loaded: Loaded, tokenizer: Tokenizer) -> tuple[Loaded, Tokenizer]:
        """The checkpoint and its tokenizer as this task needs them.

        Raises:
            UsageError: the task cannot be done with this network, or a flag does not suit it.
        """
        return loaded, tokenizer

    def defaults(self) -> dict:
        """The flags that were not given, and what holds for them; known after `prepare`.

        Raises:
            UsageError: a flag was given that this network has no use for.
        """
        options, numbers = self.options, dict(self.numbers)
        if options.auxiliary_lm_weight is not None and "auxiliary_lm_weight" not in numbers:
            raise UsageError(
                f"--auxiliary_lm_weight={options.auxiliary_lm_weight:g}: the network of --init_checkpoint="
                f"{options.init_checkpoint} does not model language from left to right, as GPT does. Leave it out."
            )
        if options.optimizer not in (None, numbers["optimizer"]):
            numbers.pop("adam_epsilon", None)  # another optimizer has its own
        return {name: value for name, value in numbers.items() if getattr(options, name) is None}

    def read(self, tokenizer: Tokenizer) -> Data:
        """The files that the flags name."""
        raise NotImplementedError

    def task(self, config: ModelConfig, data: Data) -> Task:
        """What answers; handed over with the network."""
        raise NotImplementedError

    def objective(self, task: Task) -> Objective:
        """What is learnt: by default the task alone."""
        return task


def finetuning(options) -> Finetuning:
    """The task that --task names."""
    path = f"xmodels.jobs.finetunings.{options.task}"
    module = importlib.import_module(path)
    own = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Finetuning)]
    kind = next(c for c in own if c.__module__ == path)(options)
    for name, usual in OWN_FLAGS.items():
        if name not in kind.own_flags and getattr(options, name) != usual:
            raise UsageError(f"--{name}: --task={options.task} has no such flag. Leave it out.")
    return kind
