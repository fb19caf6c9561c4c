"""What a pretraining consists of, once the flags are read and the network is built."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from types import ModuleType

import keras

from data_pipelines import layout
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.compose import Op
from data_pipelines.options.declaration import structural
from data_pipelines.pretraining.warnings import manifest_warnings
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from data_pipelines.text.tokenizer import Tokenizer
from xmodels import systems
from xmodels.jobs import numbers, step_options
from xmodels.jobs.engine import choose_learner
from xmodels.jobs.initial_vectors import begin_vectors
from xmodels.jobs.pretrain import batches as pretraining_batches
from xmodels.jobs.pretrain import evaluation, length_schedule, network, task_streams
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.options import Options
from xmodels.jobs.pretrain.system_settings import parse_system_options
from xmodels.jobs.pretrain.task_schedule import TaskSchedule
from xmodels.jobs.similar_words import add_similar_words
from xmodels.kernels import word_learner
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.runs.training import Identity
from xmodels.training.devices import distribution
from xmodels.training.recipe import Recipe, Records
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import Stream, single
from xmodels.training.watching.progress import print_status

STRUCTURAL = (*structural(Options), "masking_rate")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a pretraining consists of; all of it fits together, and nothing is written yet.

    Attributes:
        options: as they were given.
        system: the module of the published system.
        schedule: of the tasks of a system that has several; None of others.
        pairs, held_out_pairs: {name of a task: its labelled records}.
        scoring: makes rows of records ready for an evaluation, in place of what does so for the training.
    """

    options: Options
    system: ModuleType
    source: RecordSource
    tokenizer: Tokenizer
    records: Records
    recipe: Recipe
    learner: Learner
    batches: Batches
    schedule: TaskSchedule | None = None
    pairs: Mapping[str, RecordSource] = dataclasses.field(default_factory=dict)
    held_out_pairs: Mapping[str, RecordSource] = dataclasses.field(default_factory=dict)
    scoring: Op | None = None

    @property
    def size(self) -> str:
        """The name of the size, or of the file that gives the numbers of the network."""
        file = self.options.model_config_file
        return os.path.basename(file) if file else self.options.size

    @property
    def phases(self) -> str:
        """What --task_schedule or --length_schedule make of the run; empty without them."""
        if self.schedule:
            return self.schedule.describe()
        recipe, longest = self.recipe, self.records.sequence_length
        if not recipe.length_schedule:
            return ""
        found = length_schedule.parse_phases(recipe.length_schedule, recipe.num_steps, longest)
        return length_schedule.describe(found, recipe.batch_size, longest)

    def scored_batches(self) -> dict[str, Batches]:
        """Returns {name of a stream: its batches} of those that an evaluation scores: all tasks, but one length only."""
        streams = {name: stream.batches for name, stream in self.learner.streams.items()}
        if self.schedule:
            return streams
        name, batches = next(iter(streams.items()))
        return {name: dataclasses.replace(batches, transform=self.scoring) if self.scoring else batches}

    @property
    def hidden(self) -> str:
        """Which share of the tokens the training hides, and which one an evaluation; empty where both are the same."""
        if not self.scoring:
            return ""
        share = self.source.manifest.settings.masked_lm_prob
        return f"{self.records.masking_rate:.0%} of the tokens (or units) are masked, {share:.0%} where the network is scored."

    @property
    def num_parameters(self) -> int:
        """Weights of the network and its heads."""
        return self.learner.backbone.count_params() + self.learner.objective.count_params()

    @property
    def settings(self) -> dict:
        """The numbers that hold, with the system's defaults filled in, under the names of their flags."""
        return settings_of(self.recipe, self.records)

    @property
    def numbers(self) -> list[tuple[str, object, str]]:
        """(name, value, where it comes from) of all that is set: a flag, the records, the recipe, or a default."""
        filled = numbers.from_recipe(self.settings, self.options, f"recipe of {self.options.system}")
        return numbers.list_numbers(self.options, filled)

    @property
    def identity(self) -> Identity:
        """Which run this is."""
        own = task_streams.settings(self.schedule, self.pairs)
        backbone = self.learner.backbone
        return identity_of(self.options, type(backbone), backbone.config, self.source, self.recipe, self.records, own)


def plan(options: Options, system: ModuleType, strategy) -> Plan:
    """Opens the records and builds the network.

    Raises:
        ReportedError: records, network, checkpoint and flags do not fit together.
    """
    source, tokenizer = pretraining_records.open_records(options)
    for doubt in manifest_warnings(source.manifest) if source.manifest else ():
        print_status(f"Warning: {options.data_dir}: {doubt}")
    vocabulary = tokenizer.vocabulary
    records = pretraining_records.record_sizes(options, source, system)
    records = add_similar_words(options, system, records, tokenizer)
    pairs = task_streams.open_pairs(options, source, len(vocabulary))
    held_out = task_streams.open_held_out_pairs(options, pairs, source, len(vocabulary))
    records = task_streams.add_pairs(records, pairs)
    pretraining_records.check_words(options, source, system)
    check_contents(source, len(vocabulary))
    config = network.make_config(options, system, vocabulary)
    replicas = strategy.num_replicas_in_sync
    recipe = network.make_recipe(options, system, vocabulary, records, config, replicas)
    recipe, tasks = task_streams.apply_schedule(options, recipe, source, pairs)
    network.check_sizes(options, recipe, replicas)
    own = parse_system_options(options.set, system)

    def streams_of(backbone, objective, batches: Batches) -> dict[str, Stream]:
        if tasks:
            return task_streams.make_streams(options, recipe, tasks, source, pairs, backbone)
        if not recipe.length_schedule:
            return single(objective, batches)
        phases = length_schedule.parse_phases(recipe.length_schedule, recipe.num_steps, records.sequence_length)
        return length_schedule.make_streams(
            phases,
            batches,
            objective,
            records,
            lambda shorter: systems.recipe(system, vocabulary, shorter, config, own),
            lambda length, share: pretraining_batches.most_predictions(
                options, system, records.masking_rate, length, share
            ),
        )

    learner, batches = _learner(options, strategy, recipe, source, tokenizer, records, streams_of)
    network.warn_of_order(learner.backbone.config, source)
    network.warn_of_clamp(learner.backbone.config)
    with strategy.scope():
        settings = source.manifest.settings
        scoring = (
            None if tasks else evaluation.make_scoring_transform(system, vocabulary, records, settings, config, own)
        )
    return Plan(options, system, source, tokenizer, records, recipe, learner, batches, tasks, pairs, held_out, scoring)


def _learner(
    options: Options, strategy, recipe: Recipe, source, tokenizer, records: Records,
    streams_of: Callable[[Backbone, Objective, Batches], dict[str, Stream]],
) -> tuple[Learner, Batches]:  # fmt: skip
    """Returns the learner, and the batches of its first stream.

    Args:
        streams_of: makes the streams, of the network, the objective, and the batches of the records.
    """
    step_options.set_precision(options)
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone, objective = recipe.backbone(), recipe.objective()
        named = options.data_dir or options.input_file
        network.check_positions(backbone.config, records.sequence_length, named)
        pretraining_records.check_features(options, source, objective, recipe.packings)
        backbone.initialize()
        begin_vectors(options, backbone, tokenizer)
        pretraining_batches.check_grouping(options, recipe, source)
        grouping = pretraining_batches.choose_grouping(
            options, source, records, backbone, recipe.batch_size, strategy.num_replicas_in_sync
        )
        batches = pretraining_batches.make_batches(
            recipe, backbone, objective, source, recipe.batch_size, options.seed, grouping
        )
        streams = streams_of(backbone, objective, batches)
        memory = dataclasses.replace(
            step_options.memory_of(options), nonmonotonic_interval=options.nonmonotonic_average
        )
        reason = word_learner.reason_against(strategy, backbone, objective, recipe, memory, options.log_norms_steps)
        kind = choose_learner(options.step_engine, reason, word_learner.WordLearner)
        if kind is not Learner:
            recipe.frame.is_compiled = True  # before it is traced
        learner = kind(
            strategy, backbone, streams, recipe.make_optimizer(), recipe.clip_norm, options.seed,
            distribution.compiles(options.jit_compile, strategy), memory,
        )  # fmt: skip
    return learner, next(iter(streams.values())).batches


def identity_of(
    options: Options, model: type, config, source: RecordSource, recipe: Recipe, records: Records, more: Mapping | None = None
) -> Identity:  # fmt: skip
    """Returns which run these make.

    Args:
        model: the class of the network.
        more: settings of a schedule of tasks.
    """
    job = {"job": "pretrain", "model": model.__module__.rsplit(".", 1)[-1], "config": config.to_json()}
    job["records"] = pretraining_records.identity(source)
    settings = settings_of(recipe, records) | (more or {})
    return Identity(options.model_dir, job, dataclasses.asdict(options), settings, STRUCTURAL, options.resume)


def settings_of(recipe: Recipe, records: Records) -> dict:
    """Returns the numbers that hold, with the system's defaults filled in, under the names of their flags."""
    kind = layout.find_or_none(records.packing)
    return {
        **recipe.settings(),
        "train_batch_size": recipe.batch_size,
        "max_seq_length": records.sequence_length,
        "max_predictions_per_seq": records.num_predictions,
        **({"masking_rate": records.masking_rate} if kind and kind.is_framed and not records.static else {}),
        "clip_norm": recipe.clip_norm,
        "length_schedule": recipe.length_schedule,
    }
