"""Reads the files of a fine-tuning as arrays of examples, for `finetune` and the doctor.

`read.py` of a task defines one `Reader`, a subclass of this one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.tables import BadRow
from data_pipelines.errors import DataError, UsageError
from data_pipelines.options.declaration import Option
from data_pipelines.text import cuts
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.interfaces.reading import BERT_NUMBERS
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig
from xmodels.objectives.base import Objective
from xmodels.tasks.base import find
from xmodels.tasks.base.find import load_part, task_class
from xmodels.tasks.base.new import NEW, new_network, new_tokenizer
from xmodels.tasks.base.origin import optimizer_of
from xmodels.tasks.base.task import Task
from xmodels.training.finetuning import TASK, FineTuning, Phase
from xmodels.training.watching.progress import print_status

SHOWN = 5  # skipped rows that are listed
# Of systems whose papers say nothing of these.
UNUSUAL = {"gradual_unfreezing": 0.0, "language_model_epochs": 0.0, "ema_decay": 0.0}
LORA_RATE = 5e-4  # of RoBERTa's base with adapters (Hu et al., 2021, table 9)


@dataclasses.dataclass(frozen=True)
class Data:
    """Labelled examples as arrays.

    Attributes:
        source: the training examples.
        evaluation_sets: {name: examples} of the sets that are scored: "evaluation", which chooses the best epoch, and "test".
        labels: the names of the labels, in the order of their ids; [] if they have none.
        num_texts: texts per example; 0 if that differs.
        summary: of the data, for the log, such as "3 labels".
        identity: what must be the same when a run is resumed, in addition to the training examples.
        others: {name: examples} that the recipe of the system learns from beside them.
    """

    source: ArraySource
    evaluation_sets: dict[str, ArraySource]
    labels: list[str]
    num_texts: int
    summary: str
    identity: dict = dataclasses.field(default_factory=dict)
    others: dict[str, ArraySource] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is known of the files without opening a network.

    Attributes:
        summary: for the doctor, such as "120 rows to train on, 3 labels".
        labels: as in `Data`; None if they are known only after tokenization.
        num_rows: training examples; None if unknown.
        texts: some of the training texts.
    """

    summary: str
    labels: list[str] | None = None
    num_rows: int | None = None
    texts: list[str] = dataclasses.field(default_factory=list)


class Reader:
    """Reads files as examples, and makes the objective of a task. Subclasses define what differs between tasks.

    Args:
        name: of the task, a folder of `xmodels/tasks`.
        options: the `Options` of `jobs.finetune`.

    Attributes:
        refused: {flag: reason} of flags that this task does not take.
        numbers: {flag: default}.
        reading: the `Reading` of texts; None for tasks that need none.
        recipe: by which the network learns the task; that of its system is known after `prepare`.
        learns: as in `Phase`, for the phase whose files are read.
        models_language: whether the network has learnt to predict each token from those before it; known after `prepare`.
        reads_windows: whether texts that are too long are read in windows; otherwise they are truncated.

    Raises:
        UsageError: a flag is given that the task does not take.
    """

    refused: ClassVar[dict[str, str]] = {}
    numbers: ClassVar[dict] = BERT_NUMBERS
    reading = None
    learns = TASK
    models_language = False
    reads_windows: ClassVar[bool] = False

    def __init__(self, name: str, options):
        self.name, self.options, self.recipe = name, options, FineTuning()
        for flag, usual in find.all_flags(find.FINETUNE).items():
            if getattr(options, flag) != usual.default and flag not in self.own_flags:
                raise UsageError(f"--{flag}: --task={name} has no such flag. Leave it out.")
        if options.model_config_file and not self.is_new:
            raise UsageError(f"--model_config_file: --task={name} has no such flag. Leave it out.")
        if options.best_metric is not None and options.best_metric not in self.own_flags["best_metric"].choices:
            raise UsageError(
                f"--best_metric={options.best_metric}: --task={name} has no such score. Expected one of "
                f"{', '.join(self.own_flags['best_metric'].choices)}."
            )
        for flag, reason in self.refused.items():
            if getattr(options, flag) is not None:
                raise UsageError(f"--{flag}: --task={name} has no such flag; {reason}.")

    @functools.cached_property
    def own_flags(self) -> dict[str, Option]:
        """The flags of `options.py` of this task, by name."""
        return find.own_flags(self.name, find.FINETUNE)

    @property
    def task_class(self) -> type[Task]:
        return task_class(self.name)

    @property
    def pools(self) -> bool:
        """Whether the head reads one state per text, which --pooling can choose."""
        return "pooling" in self.own_flags

    @property
    def is_new(self) -> bool:
        """Whether the network starts from random weights instead of a checkpoint."""
        return (self.options.init_checkpoint or "").startswith(NEW)  # of the doctor there may be none

    @property
    def checkpoint(self) -> str:
        """The checkpoint of the initial network."""
        return self.options.init_checkpoint

    @property
    def decisive(self) -> str:
        """The score by which the best epoch is chosen; higher is better."""
        return self.options.best_metric or load_part(self.name, "score").SELECTION_METRIC

    @property
    def num_positions(self) -> int:
        """The number of positions that the network needs, the tokens of the longest example; known after `prepare`."""
        return self.options.max_seq_length

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The folders of `phases`."""
        return ()

    def phases(self) -> tuple[Phase, ...]:
        """Returns the fine-tunings that must be finished before this one, in order."""
        return ()

    def of_this_phase(self, options):
        """Returns the options of this phase, if those of the command are also for another phase."""
        return options

    def prepare_weights(self, task: Task, backbone, loaded: Checkpoint) -> None:
        """Assigns weights of the checkpoint to the task, and makes weights non-trainable.

        By default it only freezes the network if --freeze_backbone is given.
        """
        if self.options.freeze_backbone:
            backbone.trainable = False

    def extend(self, recipe: FineTuning) -> FineTuning:
        """Returns the recipe of the system with what the task learns from in addition, such as texts without labels; by default
        unchanged."""
        return recipe

    def use_teacher(self, load: Callable[[str], Any], tokenizer: Tokenizer) -> None:
        """Opens the run that --teacher names; tasks that take the flag define it.

        Args:
            load: opens a fine-tuned run as a predictor.
            tokenizer: of the network.
        """
        raise NotImplementedError

    def teacher_layers(self, backbone) -> Objective:
        """Returns the objective by which the layers of a network learn from those of the teacher; tasks that take --distill_layers
        define it.

        Args:
            backbone: the built network. It is called inside of the strategy.
        """
        raise NotImplementedError

    def begin(self) -> tuple[Checkpoint, Tokenizer] | None:
        """Returns a new network, without weights, and a tokenizer; None if both come from --init_checkpoint."""
        if not self.is_new:
            return None
        tokenizer = new_tokenizer(self.options)
        return Checkpoint(*new_network(self.options, tokenizer.vocabulary), {}), tokenizer

    def prepare(self, loaded: Checkpoint, tokenizer: Tokenizer) -> tuple[Checkpoint, Tokenizer]:
        """Returns the checkpoint and its tokenizer, adapted to this task.

        Raises:
            UsageError: the task is not possible with this network, or a flag does not fit it.
        """
        return loaded, tokenizer

    def usual_optimizer(self) -> str | None:
        """Returns --optimizer, or by default the optimizer that trained the network; None for that of the system.

        With --learning_rate alone it is None, since such a rate is meant for the usual optimizers, not on the scale of Muon's;
        with --freeze_backbone and --lora_rank too.
        """
        named = self.options.learning_rate is not None
        frozen = self.options.freeze_backbone or getattr(self.options, "lora_rank", None)
        return self.options.optimizer or (None if named or frozen else optimizer_of(self.options.init_checkpoint))

    def defaults(self) -> dict:
        """Returns {flag: default} of the flags that are not given; known after `prepare`.

        Raises:
            UsageError: a flag is given that this network cannot use.
        """
        options, numbers = self.options, UNUSUAL | self.numbers
        if options.auxiliary_lm_weight is not None and not self.models_language:
            raise UsageError(
                f"--auxiliary_lm_weight={options.auxiliary_lm_weight:g}: the network of --init_checkpoint="
                f"{options.init_checkpoint} does not model language from left to right, as GPT does. Leave it out."
            )
        if options.language_model_epochs and not (self.models_language and not self.phase_names):
            raise UsageError(
                f"--language_model_epochs={options.language_model_epochs:g}: needs a network that models language from left to right, "
                f"as GPT does, and a task without phases of its own; that is not so of --init_checkpoint={options.init_checkpoint} "
                f"with --task={self.name}. Leave it out."
            )
        if self.phase_names or getattr(options, "random_init", False):
            numbers["language_model_epochs"] = 0.0  # a network from scratch knows no texts
        if getattr(options, "lora_rank", None):
            numbers["learning_rate"] = max(LORA_RATE, numbers["learning_rate"])
        if options.optimizer not in (None, numbers["optimizer"]):
            for name in ("adam_epsilon", "momentum"):  # another optimizer has its own defaults
                numbers.pop(name, None)
        return {name: value for name, value in numbers.items() if getattr(options, name) is None}

    def evaluation_files(self) -> list[tuple[str, str]]:
        """Returns (name of the set, path) of the files that are scored."""
        files = ("evaluation", self.options.eval_file), ("test", self.options.test_file)
        return [(name, path) for name, path in files if path]

    def bad_rows(self) -> list[BadRow] | None:
        """Returns a list that collects the rows of a table that cannot be used; None if such a row is an error."""
        return [] if self.options.on_bad_row == "skip" else None

    def survey(self) -> Survey:
        """Reads and checks the files without a tokenizer.

        Raises:
            DataError, UsageError: as `read`.
        """
        raise NotImplementedError

    def survey_records(self, tokenizer: Tokenizer) -> Survey:
        """Checks the records of --data_dir against the tokenizer and each other.

        Raises:
            DataError, UsageError: as `read`.
        """
        raise UsageError(
            f"--data_dir: --task={self.name} learns from files, not from records. Name them by --train_file."
        )

    def read(self, tokenizer: Tokenizer) -> Data:
        """Reads the files of the flags.

        Raises:
            DataError, UsageError: a file cannot be used, or does not fit the flags or the other files.
        """
        raise NotImplementedError

    def recorded_set(self, folder: str, tokenizer: Tokenizer, labels: list[str]) -> ArraySource:
        """Reads a folder of records as a set that is scored.

        Args:
            labels: those of the training; [] if they have no names.

        Raises:
            UsageError: records do not hold the true answers of this task.
            DataError: as `read`.
        """
        raise UsageError(
            f"--test_file={folder}: holds records, which do not say all that --task={self.name} is scored by. Name the file that "
            "they were made of."
        )

    def task(self, config: TokenConfig, data: Data) -> Task:
        """Returns the task with its head, which is saved with the network."""
        given = {"reading": self.reading} if self.reading else {}
        return self.task_class(config, data.labels, **given)

    def make_task(self, config: TokenConfig, data: Data) -> Task:
        """Returns `task`, with the flags that apply to any head."""
        task = self.task(config, data)
        if self.options.task_dropout is not None:
            task.dropout.rate = self.options.task_dropout
        return task

    def objective(self, task: Task) -> Objective:
        """Returns the training objective; by default the task itself."""
        return task

    def truth(self, source: ArraySource, labels: list[str]) -> list:
        """Returns the true answers of a set, in the form that `scores` takes. Needed unless `SELECTION_METRIC` is a metric."""
        raise NotImplementedError


def tells_cuts(*flags: str) -> Callable:
    """Decorates a method of a `Reader` whose first argument is a file: prints how many of its inputs are cut.

    Args:
        flags: that say how long they may be; one that is not given is not named.
    """

    def decorate(method: Callable) -> Callable:
        @functools.wraps(method)
        def wrapped(self, path, *rest, **more):
            with cuts.count_cuts() as found:
                result = method(self, path, *rest, **more)
            limits = [f"--{name}={value}" for name in flags if (value := getattr(self.options, name))]
            if message := found.message(path, " or ".join(limits) or f"--{flags[0]} allows"):
                print_status(message)
            return result

        return wrapped

    return decorate


def print_left_out(path: str, bad_rows: Sequence[BadRow] | None) -> None:
    """Prints how many rows are skipped, and the first of them."""
    if bad_rows:
        shown = "; ".join(map(str, bad_rows[:SHOWN])) + (
            f"; and {len(bad_rows) - SHOWN:,} more" if bad_rows[SHOWN:] else ""
        )
        print_status(f"{path}: {len(bad_rows):,} row(s) cannot be used and are left out: {shown}.")


def drop_unusable(examples: Iterable, bad_rows: list[BadRow] | None, problem: Callable[[Any], str | None]) -> list:
    """Returns the examples without a problem; the others are appended to `bad_rows`.

    Args:
        examples: have `place`, their file and line.
        bad_rows: a list, or None to raise an error instead.
        problem: returns why an example cannot be used, or None.

    Raises:
        DataError: an example has a problem, and `bad_rows` is None.
    """
    found = []
    for each in examples:
        reason = problem(each)
        if reason and bad_rows is None:
            raise DataError(f"{each.place}: {reason}. Correct it, or leave such rows out with --on_bad_row=skip.")
        if reason:
            bad_rows.append(BadRow(each.place, reason))
        else:
            found.append(each)
    return found
