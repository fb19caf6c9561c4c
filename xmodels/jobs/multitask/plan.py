"""A joint fine-tuning, ready to begin: one network, and for each task a head, data, batches and scores."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping

import keras

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.remainders import Remainders
from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.files import write_json
from data_pipelines.strict_yaml import variables_of
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.interfaces.reading import BASE_WIDTH, Reading
from xmodels.jobs import step_options
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.finetune.decisive import Evaluation
from xmodels.jobs.finetune.few_examples import subsample
from xmodels.jobs.finetune.plan import check_options, num_steps_of
from xmodels.jobs.finetune.rates import optimization_of
from xmodels.jobs.finetune.start import build_backbone, finetuning_of, load_checkpoint_and_tokenizer, reader_of
from xmodels.jobs.multitask import options as multitask
from xmodels.jobs.multitask.steps import Turns, batches_of, epochs_of
from xmodels.jobs.multitask.tasks_file import TasksFile, read_tasks_file, task_options
from xmodels.jobs.pretrain.task_schedule import TaskSchedule
from xmodels.models.backbone import Backbone
from xmodels.models.checkpoint import Checkpoint
from xmodels.runs import folder as run_folder
from xmodels.runs.memory_check import check_resources
from xmodels.tasks.base import find
from xmodels.tasks.base.description import JOINT_FILE
from xmodels.tasks.base.origin import optimizer_of
from xmodels.tasks.base.read import Data, Reader
from xmodels.tasks.base.task import Task
from xmodels.training.devices import distribution
from xmodels.training.finetuning import FineTuning, Joint, OtherExamples
from xmodels.training.mixture import steps_of
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import Stream, seed_of
from xmodels.training.watching.progress import print_status

MEAN_SCORE = (
    "mean_score"  # over the tasks with an eval_file: of the score that would choose the best epoch of each alone
)


@dataclasses.dataclass(frozen=True)
class Member:
    """One of the tasks.

    Attributes:
        options: those by which `finetune` would learn it alone; `model_dir` is its folder in that of the run.
        evaluation: its scores.
    """

    options: finetune.Options
    reader: Reader
    data: Data
    task: Task
    batches: Batches
    tokenizer: Tokenizer
    evaluation: Evaluation

    @property
    def batches_per_epoch(self) -> int:
        return batches_of(self.data.source.num_examples, self.batches.batch_size)

    def means(self, name: str, settings: Mapping | None = None) -> dict[str, float]:
        """Returns losses and scores of a set.

        Args:
            settings: what the evaluation set chose before; None where this set chooses.
        """
        if settings is not None:
            names = self.evaluation.tuned
            settings = {each: settings.get(each, self.task.settings[each]) for each in names}
        return self.evaluation.means(self.data.evaluation_sets[name], settings)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A joint fine-tuning, ready to begin.

    Attributes:
        options: as they were given.
        members: {name: task}.
        schedule: of which task each step is.
        finetuning: the recipe of the system; how the tasks follow one another is that of the file of tasks, where it says something.
        num_steps: updates in all; `per_epoch` in an epoch.
        others: {name: examples} that all tasks learn from beside their own.
    """

    options: multitask.Options
    loaded: Checkpoint
    tokenizer: Tokenizer
    members: Mapping[str, Member]
    schedule: TaskSchedule
    finetuning: FineTuning
    optimization: Optimization
    learner: Learner
    num_steps: int
    per_epoch: int
    others: Mapping[str, ArraySource] = dataclasses.field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Where the weights come from."""
        return "random weights" if self.options.random_init else self.options.init_checkpoint

    @property
    def evaluated_tasks(self) -> dict[str, Member]:
        """The tasks that choose the best epoch."""
        return {name: each for name, each in self.members.items() if "evaluation" in each.data.evaluation_sets}

    def evaluate(self) -> dict[str, float]:
        """Returns scores of all evaluation sets, `NAME/SCORE`. `loss` and `mean_score` are means over the tasks, which count
        alike."""
        found, losses, decisive = {}, [], []
        for name, each in self.evaluated_tasks.items():
            means = each.means("evaluation")
            losses.append(means.pop("loss"))
            decisive.append(means[each.evaluation.decisive])
            found |= {f"{name}/{measure}": value for measure, value in means.items()}
        count = len(losses)
        return {"loss": sum(losses) / count, MEAN_SCORE: sum(decisive) / count, **found}

    def hand_over(self) -> None:
        """Writes the network with all heads, and what the last evaluation chose for each task."""
        folder, learner = self.options.model_dir, self.learner
        chosen = {
            name: {"task": each.options.task, "settings": each.evaluation.chosen} for name, each in self.members.items()
        }
        write_json(os.path.join(folder, JOINT_FILE), chosen)
        with learner.averaged_weights():
            run_folder.write_backbone(folder, learner.backbone, learner.objective, self.tokenizer, self.loaded.system)


def plan(given: multitask.Options, strategy) -> Plan:
    """Opens the checkpoint and the files, and builds the network.

    Raises:
        UsageError, DataError, CheckpointError: what flags or the file of tasks name cannot be used, or does not fit.
    """
    wanted = read_tasks_file(given.tasks_file, variables_of(given.set))
    readers = {name: reader_of_task(given, wanted, name) for name in wanted.tasks}
    loaded, tokenizer = load_for_all(given, readers)
    finetuning, loaded = finetuning_of_all(wanted, readers, loaded)
    data = {}
    for name, reader in readers.items():
        with naming(given, name):
            check_options(reader.options, strategy.num_replicas_in_sync, loaded)
            data[name] = subsample(reader.read(tokenizer), reader.options)
    if given.early_stopping_patience and not any("evaluation" in each.evaluation_sets for each in data.values()):
        raise UsageError(
            f"--early_stopping_patience={given.early_stopping_patience}: nothing says which epoch is better. Give tasks of "
            f"{given.tasks_file} an eval_file."
        )
    sizes = {name: reader.options.train_batch_size for name, reader in readers.items()}
    schedule = make_schedule_of_tasks(
        given, finetuning.joint, {name: data[name].source.num_examples for name in data}, sizes
    )
    others = others_of_all(given, readers, tokenizer)
    turns = Turns(schedule, tuple(others))
    per_epoch = sum(schedule.stages[0].values()) * turns.per_step
    num_steps = num_steps_of(given, per_epoch)
    optimization = optimization_of(given, num_steps, per_epoch)
    warn_rate(given, loaded.config)
    learner, members = _learner(
        given, strategy, loaded, tokenizer, readers, data, turns, optimization, finetuning, others
    )
    for each in members.values():
        mask = each.data.source.arrays["padding_mask"]
        check_resources(
            given, learner, each.batches.batch_size * (mask.shape[1] if mask.ndim > 2 else 1), mask.shape[-1]
        )
    sources = {name: source for name, (source, _) in others.items()}
    return Plan(
        given, loaded, tokenizer, members, schedule, finetuning, optimization, learner, num_steps, per_epoch, sources
    )


def warn_rate(given: multitask.Options, config) -> None:
    """Says where the usual rate, which is for large networks, meets a small one: at it those hardly move."""
    usual = multitask.Options.learning_rate
    if config.hidden_dim >= BASE_WIDTH or given.learning_rate != usual:
        return
    numbers = Reading().numbers_for(config, optimizer_of(given.init_checkpoint))
    muon = " --optimizer=muon" if numbers.get("optimizer") == "muon" else ""
    print_status(
        f"Warning: --learning_rate={usual:g} is for networks of {BASE_WIDTH} and more; this one has a width of {config.hidden_dim}. "
        f"`finetune` would take --learning_rate={numbers['learning_rate']:g}{muon} (docs/small_networks.md)."
    )


@contextlib.contextmanager
def naming(given: multitask.Options, name: str):
    """Errors inside name the task; the flags of which they speak are its keys in the file."""
    try:
        yield
    except (UsageError, DataError, CheckpointError) as error:
        raise type(error)(f"{given.tasks_file}: `tasks.{name}`: {error}") from None


def reader_of_task(given: multitask.Options, wanted: TasksFile, name: str) -> Reader:
    """Reads the files of a task. Raises a UsageError where it cannot be learnt beside others."""
    options = task_options(given, wanted, name)
    with naming(given, name):
        if options.task not in (able := find.able("JOINS")):
            known = ", ".join(able)
            raise UsageError(
                f"{options.task} cannot be learnt beside other tasks. Take one of {known}, or learn it alone by `xmodels finetune`."
            )
        return reader_of(options)


def load_for_all(given: multitask.Options, readers: Mapping[str, Reader]) -> tuple[Checkpoint, Tokenizer]:
    """Returns the checkpoint to start from and its tokenizer, as all tasks need them."""
    found = None
    for name, reader in readers.items():
        with naming(given, name):
            found = reader.prepare(*found) if found else load_checkpoint_and_tokenizer(reader.options, reader)
    return found


def finetuning_of_all(
    wanted: TasksFile, readers: Mapping[str, Reader], loaded: Checkpoint
) -> tuple[FineTuning, Checkpoint]:
    """Returns the recipe of the system for tasks that are learnt together, and the checkpoint as it changes it.

    Its groups of weights, their optimizers, and changes of the network hold. Phases and the language model beside a task are of
    one task alone, and so are other examples, but for those of `others_of_all`.
    """
    options = dataclasses.replace(
        next(iter(readers.values())).options, auxiliary_lm_weight=0.0, language_model_epochs=0.0
    )
    found, loaded = finetuning_of(options, loaded)
    joint = wanted.joint if wanted.joint != Joint() else found.joint
    return dataclasses.replace(found, joint=joint, phases=(), streams={}, loss_weights={}), loaded


Shared = Mapping[str, tuple[ArraySource, Mapping[str, OtherExamples]]]  # what all tasks learn from, by name


def others_of_all(given: multitask.Options, readers: Mapping[str, Reader], tokenizer: Tokenizer) -> Shared:
    """Returns the examples that tasks learn from beside their own, and how each task does.

    Raises:
        UsageError: the tasks do not name the same ones.
    """
    named: dict[str, dict[str, OtherExamples]] = {}
    for task, reader in readers.items():
        for name, each in reader.extend(FineTuning()).streams.items():
            if each.together is not None:
                named.setdefault(name, {})[task] = each
    found = {}
    for name, of_tasks in named.items():
        sources = {}
        for task, each in of_tasks.items():
            with naming(given, task):
                sources[task] = each.source(readers[task], tokenizer)
        first, *rest = sources
        odd = [task for task in readers if task not in sources]
        odd += [task for task in rest if sources[task].sha256 != sources[first].sha256]
        if odd:
            raise UsageError(
                f"{given.tasks_file}: `tasks.{odd[0]}`: has other {name} examples than `tasks.{first}`, or none; all tasks learn from "
                "the same. Give them in `defaults`."
            )
        found[name] = sources[first], of_tasks
    return found


def make_schedule_of_tasks(
    given: multitask.Options, joint: Joint, examples: Mapping[str, int], sizes: Mapping[str, int]
) -> TaskSchedule:
    """Returns the order of the steps, of tasks with so many examples, in batches of such sizes."""
    counts = {name: batches_of(count, sizes[name]) for name, count in examples.items()}
    if joint.mixture is not None:
        return epochs_of(steps_of(joint.mixture, examples, counts), given.num_train_epochs, given.seed)
    return epochs_of(counts, given.num_train_epochs, given.seed, **joint.describe())


def _learner(
    given, strategy, loaded, tokenizer, readers: Mapping[str, Reader], data: Mapping[str, Data], turns: Turns,
    optimization: Optimization, finetuning: FineTuning, others: Shared,
) -> tuple[Learner, dict[str, Member]]:  # fmt: skip
    step_options.set_precision(given)
    keras.utils.set_random_seed(given.seed)
    with strategy.scope():
        backbone = build_backbone(given, loaded)
        tasks = {name: reader.make_task(loaded.config, data[name]) for name, reader in readers.items()}
        for name, reader in readers.items():
            reader.prepare_weights(tasks[name], backbone, loaded)
        batches = {
            name: _batches(tasks[name], data[name], reader.options, backbone, seed_of(given.seed, index))
            for index, (name, reader) in enumerate(readers.items())
        }
        streams = {
            name: Stream(tasks[name], batches[name], functools.partial(turns.share, name), find.JOINT_HEAD + name)
            for name in readers
        }
        rows = next(iter(readers.values())).options.train_batch_size
        for index, (name, (source, of_tasks)) in enumerate(others.items(), len(readers)):
            parts = {task: each.objective(tasks[task]) for task, each in of_tasks.items()}
            objective = next(iter(of_tasks.values())).together(parts)
            keep, order = objective.batch_features(backbone), seed_of(given.seed, index)
            found = Batches(source, objective.transform(), rows, order, keep)
            streams[name] = Stream(objective, found, functools.partial(turns.share, name))
        learner = Learner(
            strategy, backbone, streams, _optimizer_of(finetuning, optimization), 1.0 if given.clip_norm is None else given.clip_norm,
            given.seed, distribution.compiles(given.jit_compile, strategy), step_options.memory_of(given),
        )  # fmt: skip
    members = {}
    for name, reader in readers.items():
        scored = reader.name, tasks[name], learner, batches[name], data[name].labels, reader.decisive
        evaluation = Evaluation(*scored, stream=name)
        members[name] = Member(reader.options, reader, data[name], tasks[name], batches[name], tokenizer, evaluation)
    return learner, members


def _optimizer_of(finetuning: FineTuning, optimization: Optimization):
    """Returns that of the groups of a recipe, or one for all weights, with the rates by depth that flags ask for."""
    return GroupedOptimizer(finetuning.groups, optimization) if finetuning.groups else optimization.make_optimizer()


def _batches(task: Task, data: Data, options: finetune.Options, backbone: Backbone, seed: int) -> Batches:
    keep = task.batch_features(backbone)
    return Batches(data.source, task.transform(), options.train_batch_size, seed, keep, Remainders())
