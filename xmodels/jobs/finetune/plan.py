"""A fine-tuning, ready to begin: network, head, data, and the numbers that hold. `options` are those of `jobs.finetune`."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras

from data_pipelines.arrays import arrays_sha256
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion import convert
from xmodels.jobs import step_options
from xmodels.jobs.engine import choose_learner
from xmodels.jobs.finetune.batches import choose_batches
from xmodels.jobs.finetune.decisive import Evaluation
from xmodels.jobs.finetune.few_examples import subsample
from xmodels.jobs.finetune.rates import defaults_of, optimization_of, optimizer_of
from xmodels.jobs.finetune.start import (
    begin_adapters,
    begin_head,
    begin_language_model,
    build_backbone,
    check_adapters,
    check_head,
    finetuning_of,
    load_checkpoint_and_tokenizer,
    objective_of,
    reader_of,
)
from xmodels.jobs.initial_vectors import begin_vectors
from xmodels.kernels import text_learner
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import values_of
from xmodels.objectives.base import Objective
from xmodels.runs import folder as run_folder
from xmodels.runs.fine_tuned import choose_settings, load_predictor, read_task
from xmodels.runs.memory_check import check_resources
from xmodels.runs.report import PICTURES
from xmodels.tasks.base.read import Data, Reader
from xmodels.tasks.base.task import Task
from xmodels.training.devices import distribution
from xmodels.training.finetuning import AUXILIARY_LM, LANGUAGE_MODEL, TASK, TEACHER_LAYERS, FineTuning, Phase
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.loss_weights import LossWeights
from xmodels.training.step.streams import Stream, seed_of, single
from xmodels.training.watching.watching import profile_steps

FEW_STEPS = 20
TITLES = {
    LANGUAGE_MODEL: "Language model of the texts of a task",
    TEACHER_LAYERS: "Layers learnt from those of a teacher",
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """A fine-tuning, ready to begin.

    Attributes:
        options: of this phase, with the numbers that hold where flags give none; `flags` are those of the whole fine-tuning, and
            `given` as they were given.
        decisive: the score that chooses the best epoch.
        num_steps: updates in all.
        per_epoch: updates in an epoch.
        rows: examples of a batch, at least.
        phases: the folders of the runs that are finished before it begins.
        learns: as in `Phase`.
    """

    options: Any
    flags: Any
    given: Any
    loaded: Checkpoint
    tokenizer: Tokenizer
    data: Data
    optimization: Optimization
    learner: Learner
    task: Task
    batches: Batches
    num_steps: int
    per_epoch: float
    rows: int
    decisive: str
    phases: tuple[str, ...]
    learns: str = TASK

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.options.task, self.task, self.learner, self.batches, self.data.labels, self.decisive)

    @property
    def origin(self) -> str:
        """Where the weights come from."""
        from_checkpoint = self.loaded.values and not self.options.random_init
        return self.options.init_checkpoint if from_checkpoint else "random weights"

    @property
    def learnt(self) -> Objective | None:
        """What learns with the network and is handed over with it: the task, or the language model in its phase. None for layers."""
        if self.learns == TASK:
            return self.task
        return self.learner.first_objective.language_model if self.learns == LANGUAGE_MODEL else None

    @property
    def title(self) -> str:
        return TITLES.get(self.learns, self.task.title)

    @property
    def steps_per_epoch(self) -> int:
        return max(1, int(self.per_epoch))

    def means(self, name: str) -> dict[str, float]:
        """Returns losses and scores of an evaluation set; the set that chooses the epoch chooses settings of the task too."""
        names, settings = self.evaluation.tuned, None
        if name != "evaluation":
            stored = read_task(self.options.model_dir).settings if names else {}
            settings = {each: stored[each] for each in names}
        return self.evaluation.means(self.data.evaluation_sets[name], settings)

    def hand_over(self) -> None:
        """Writes the network and its head, with the averaged weights where there are such, and what the last evaluation chose."""
        with self.learner.averaged_weights():
            run_folder.write_backbone(
                self.options.model_dir, self.learner.backbone, self.learnt, self.tokenizer, self.loaded.system
            )
        if self.learns != TASK:
            return
        choose_settings(self.options.model_dir, self.evaluation.chosen)
        self.evaluation.draw(os.path.join(self.options.model_dir, PICTURES))


def phase_names(reader: Reader, finetuning: FineTuning) -> tuple[str, ...]:
    """Returns the folders of the runs that are finished before the one that needs them."""
    return (*reader.phase_names, *(phase.name for phase in finetuning.phases))


def plan(given, strategy, lead: Callable[[Sequence[Phase]], None] | None = None, led: Phase | None = None) -> Plan:
    """Opens the checkpoint and the files, and builds the network.

    Args:
        given: the options.
        strategy: that of the devices.
        lead: finishes the phases of the recipe; None for those of a run that is one itself.
        led: the phase that it is; None for the fine-tuning that comes last.

    Raises:
        UsageError, DataError, CheckpointError: what the flags name cannot be used, or does not fit.
    """
    reader, learns = reader_of(given), led.learns if led else TASK
    reader.learns = learns
    loaded, tokenizer = load_checkpoint_and_tokenizer(given, reader)
    flags = reader.options = dataclasses.replace(given, **defaults_of(reader))
    options = reader.of_this_phase(flags)
    finetuning, loaded = finetuning_of(options, loaded, led)
    finetuning = reader.recipe = reader.extend(finetuning) if learns == TASK else finetuning
    if lead is not None and finetuning.phases:
        lead(finetuning.phases)
        last = os.path.join(options.model_dir, finetuning.phases[-1].name)
        if not options.dry_run:
            loaded = dataclasses.replace(loaded, values={**loaded.values, **convert.load(last).values})
            options = dataclasses.replace(options, random_init=False)  # the first of them began with random weights
    check_options(options, strategy.num_replicas_in_sync, loaded)
    check_adapters(options, loaded)
    if options.teacher:
        reader.use_teacher(load_predictor, tokenizer)
    data = with_others(subsample(reader.read(tokenizer), options), finetuning, reader, tokenizer)
    if options.teacher:
        teacher, head = reader.teaching, reader.teaching.task
        teacher = arrays_sha256(values_of("backbone", teacher.backbone) | values_of(head.prefix, head))
        data = dataclasses.replace(data, identity=data.identity | {"teacher_sha256": teacher})
    if options.init_head:
        check_head(options, data.labels)
    if options.early_stopping_patience and "evaluation" not in data.evaluation_sets:
        raise UsageError(
            f"--early_stopping_patience={options.early_stopping_patience}: nothing says which epoch is better. Name labelled rows by "
            "--eval_file."
        )
    grouping, rows, per_epoch = choose_batches(options, data.source, strategy.num_replicas_in_sync)
    per_epoch *= finetuning.steps_per_step
    num_steps = num_steps_of(options, per_epoch)
    optimization = optimization_of(options, num_steps, per_epoch)
    learner, task, batches = _learner(
        options, strategy, loaded, reader, tokenizer, data, optimization, finetuning, rows, grouping, learns
    )
    mask = data.source.arrays["padding_mask"]
    sequences = mask.shape[1] if mask.ndim > 2 else 1  # an example may be several
    check_resources(options, learner, rows * sequences, reader.num_positions)
    return Plan(
        options, flags, given, loaded, tokenizer, data, optimization, learner, task, batches, num_steps, per_epoch, rows,
        reader.decisive, () if lead is None else phase_names(reader, finetuning), learns,
    )  # fmt: skip


def with_others(data: Data, finetuning: FineTuning, reader: Reader, tokenizer: Tokenizer) -> Data:
    """Returns the data with the examples that the recipe learns from beside the labelled ones."""
    others = {name: each.source(reader, tokenizer) for name, each in finetuning.streams.items()}
    identity = {f"{name}_sha256": source.sha256 for name, source in others.items()}
    return dataclasses.replace(data, others=others, identity=data.identity | identity)


def num_steps_of(options, per_epoch: float) -> int:
    """Updates in all."""
    return max(1, int(options.num_train_epochs * per_epoch))


def few_steps_warning(num_steps: int, options) -> str | None:
    """Returns what to say where a run ends before anything can be learnt; None where it has steps enough."""
    if num_steps >= FEW_STEPS:
        return None
    times = math.ceil(FEW_STEPS / num_steps)
    size = "--tokens_per_batch" if options.tokens_per_batch else "--train_batch_size"
    return (
        f"Warning: {num_steps} step(s) in all are hardly enough to learn anything, and the first of them warm up. Give smaller "
        f"batches ({size}), or more epochs, such as --num_train_epochs={times * options.num_train_epochs:g}."
    )


def check_options(options, num_replicas: int, loaded) -> None:
    """Raises a UsageError where numbers contradict each other, the devices or the checkpoint."""
    profile_steps(options.profile_steps)  # raises what is wrong with it
    if not options.num_train_epochs > 0:
        raise UsageError(f"--num_train_epochs={options.num_train_epochs:g}: must be more than 0; 3 is usual.")
    if not 0 <= options.warmup_proportion <= 1:
        raise UsageError(f"--warmup_proportion={options.warmup_proportion:g}: must lie between 0 and 1; 0.1 is usual.")
    if not options.tokens_per_batch:  # whose batches are cut into parts by `token_buckets`
        step_options.check_batch_size(options, options.train_batch_size, num_replicas)
    longest = loaded.config.longest
    if not loaded.config.reads(options.max_seq_length):
        raise UsageError(
            f"--max_seq_length={options.max_seq_length}: the network has {longest} positions. Use --max_seq_length={longest} "
            "or less; longer texts are cut. --extend_positions makes more of them."
        )


def _learner(
    options,
    strategy,
    loaded,
    reader: Reader,
    tokenizer: Tokenizer,
    data: Data,
    optimization: Optimization,
    finetuning: FineTuning,
    rows: int,
    grouping=None,
    learns: str = TASK,
) -> tuple[Learner, Task, Batches]:
    step_options.set_precision(options)
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone = build_backbone(options, loaded)
        begin_vectors(options, backbone, tokenizer)
        if options.lora_rank:
            begin_adapters(options, backbone)
        task = reader.make_task(loaded.config, data)
        reader.prepare_weights(task, backbone, loaded)
        if learns == TEACHER_LAYERS:
            objective = reader.teacher_layers(backbone)
        else:
            objective = objective_of(reader.objective(task), finetuning, loaded, learns)
        keep = objective.batch_features(backbone)
        batches = Batches(data.source, objective.transform(), rows, options.seed, keep, grouping)
        others = other_streams(data, finetuning, task, backbone, rows, options.seed)
        clip_norm, memory = 1.0 if options.clip_norm is None else options.clip_norm, step_options.memory_of(options)
        weighted = finetuning.models_language or finetuning.loss_weights.keys() - {AUXILIARY_LM}
        is_alone = not (others or finetuning.groups or weighted or options.tokens_per_batch)
        reason = text_learner.reason_against(
            strategy, backbone, objective, optimization, clip_norm, memory, is_alone, options.log_norms_steps
        )
        kind = choose_learner(options.step_engine, reason, text_learner.TextLearner)
        learner = kind(
            strategy, backbone, single(objective, batches) | others, optimizer_of(finetuning, optimization, backbone), clip_norm,
            options.seed, distribution.compiles(options.jit_compile, strategy), memory,
            LossWeights(finetuning.loss_weights, optimization.num_steps),
        )  # fmt: skip
        if loaded.values and not options.random_init:
            begin_language_model(objective, loaded, options.init_checkpoint)
        if options.init_head:
            begin_head(task, loaded, options.init_checkpoint)
        return learner, task, batches


def other_streams(data: Data, finetuning: FineTuning, task: Task, backbone, rows: int, seed: int) -> dict[str, Stream]:
    """Returns the streams of a recipe beside that of the task, in batches of as many rows."""
    found = {}
    for index, (name, each) in enumerate(finetuning.streams.items()):
        objective = each.objective(task)
        keep, order = objective.batch_features(backbone), seed_of(seed, index + 1)
        batches = Batches(data.others[name], objective.transform(), rows, order, keep)
        found[name] = Stream(objective, batches, each.share)
    return found
