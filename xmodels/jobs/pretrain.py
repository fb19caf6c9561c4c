"""Pretrains a published system on records; resumes where it was interrupted."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable

import keras
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.compose import compose
from data_pipelines.options.declaration import structural
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from data_pipelines.records.verification import verify
from data_pipelines.text.tokenizer import Tokenizer
from xmodels import systems
from xmodels.conversion import convert
from xmodels.jobs import average, devices, dry_run, pretraining_network, pretraining_records, step_options
from xmodels.jobs.neighbours import shares_right
from xmodels.jobs.options.pretrain import Options
from xmodels.jobs.system_settings import own_options
from xmodels.objectives.base import Objective
from xmodels.objectives.perplexity import of_training
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.baselines import Baselines
from xmodels.runs.memory_check import check_resources
from xmodels.runs.report import write_report
from xmodels.runs.samples import COUNT, sampler
from xmodels.training.devices import distribution
from xmodels.training.devices.workers import Workers
from xmodels.training.loop import Loop
from xmodels.training.recipe import Recipe, Records
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import ONLY, single
from xmodels.training.watching.progress import print_status, scores
from xmodels.training.watching.watching import Watch, profile_steps, watch

STRUCTURAL = structural(Options)


def pretrain(options: Options) -> dict[str, float]:
    """Trains, evaluates, and writes the run folder.

    Returns:
        The last evaluation's means; nothing of a dry run, and for workers that are not the chief.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    system = systems.load(options.system)
    preflight.check_writable(options.model_dir)
    pretraining_network.check_size(options, system)
    own_options(options.set, system)  # raises what is wrong with it
    pretraining_network.check_mixer(options, system)
    average.check(options.ema_decay, options.average_checkpoints)
    profile_steps(options.profile_steps)  # raises what is wrong with it
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with devices.at_work(options, workers):
        return _pretrain(options, system, strategy, workers)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a pretraining consists of; all of it fits together."""

    options: Options
    source: RecordSource
    tokenizer: Tokenizer
    records: Records
    recipe: Recipe
    learner: Learner
    batches: Batches

    @property
    def size(self) -> str:
        """The name of the size, or of the file that gives the numbers of the network."""
        file = self.options.model_config_file
        return os.path.basename(file) if file else self.options.size

    @property
    def num_parameters(self) -> int:
        """Weights of the network and its heads."""
        return self.learner.backbone.count_params() + self.learner.objective.count_params()


def _pretrain(options: Options, system, strategy, workers: Workers) -> dict[str, float]:
    made = _prepare(options, system, strategy)
    learner, tokenizer = made.learner, made.tokenizer
    evaluated = _Evaluated(_evaluated_on(options, made.batches), options.eval_steps)
    evaluate = _evaluation(learner, evaluated, tokenizer.kind)
    _print_plan(made, strategy.num_replicas_in_sync)
    positions = pretraining_network.scored_positions(made.recipe, made.records)
    length = made.recipe.row_length or made.records.sequence_length
    check_resources(options, learner, made.recipe.batch_size, length, positions)
    if options.dry_run:
        _show_dry_run(made)
        return {}
    state, results = devices.start(workers, learner, lambda: _start(made))
    if results is not None:
        run_folder.print_finished(options.model_dir, "--num_train_steps")
        return results
    watcher, baselines = Watch(), None
    folder = workers.folder(options.model_dir)
    if workers.is_chief:
        run_folder.write_data(options.model_dir, tokenizer, options.data_dir)
        baselines = _write_baselines(made, evaluated, claimed_before=state.step > 0)
        samples = sampler(learner, evaluated.first_examples, tokenizer)
        warns = _plateau(baselines, made.recipe.num_steps)
        flags = options.log_norms_steps, options.profile_steps
        watcher = watch(learner, made.batches.zeros(), folder, *flags, samples, warns)
    loop = Loop(
        learner, folder, made.recipe.num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=options.eval_every if options.eval_data_dir else 0, evaluate=evaluate,
        evaluation="evaluation" if options.eval_data_dir else "evaluation on training records",
        select=(lambda means: -means["loss"]) if options.eval_data_dir else None,
        on_data_loss=_leaving_out(options, made.batches), watch=watcher, max_skipped=options.max_skipped_steps,
        keep=max(options.keep_checkpoint_max, options.average_checkpoints),
    )  # fmt: skip
    with _naming_damage(options, made.source):
        state = loop.run(state)
    return _finish(made, loop, state, evaluate, baselines) if workers.is_chief else {}


def _prepare(options: Options, system, strategy) -> Prepared:
    """Opens the records and builds the network; raises what does not fit."""
    source, tokenizer = pretraining_records.open_records(options)
    vocabulary = tokenizer.vocabulary
    records = pretraining_records.record_sizes(options, source)
    pretraining_records.check_words(options, source, system)
    check_contents(source, len(vocabulary))
    config = pretraining_network.chosen_config(options, system, vocabulary)
    replicas = strategy.num_replicas_in_sync
    recipe = pretraining_network.recipe_of(options, system, vocabulary, records, config, replicas)
    pretraining_network.check_sizes(options, recipe, replicas)
    learner, batches = _learner(options, strategy, recipe, source, records)
    pretraining_network.warn_of_order(learner.backbone.config, source)
    return Prepared(options, source, tokenizer, records, recipe, learner, batches)


def _print_plan(made: Prepared, num_devices: int) -> None:
    """Prints what is trained, on what, and by which numbers."""
    recipe = made.recipe
    print_status(
        f"{made.options.system} ({made.size}): {made.num_parameters:,} parameters; {made.source.num_examples:,} examples of "
        f"length {made.records.sequence_length}; {recipe.num_steps:,} steps of {recipe.batch_size} on "
        f"{num_devices} device(s); {recipe.optimizer}, learning rate {recipe.learning_rate:g} after "
        f"{recipe.num_warmup_steps:,} warm-up steps ({recipe.schedule}). "
        f"{recipe.layerwise.describe(made.learner.backbone)}{recipe.note}".rstrip()
    )


def _show_dry_run(made: Prepared) -> None:
    """Prints what would be trained. Raises a ReportedError where the first weights do not fit."""
    options, recipe = made.options, made.recipe
    _initial(options, made.learner.backbone, made.tokenizer)
    filled = dry_run.from_recipe(_settings(recipe, made.records), options, f"recipe of {options.system}")
    dry_run.show(options, filled, made.learner, made.batches, made.tokenizer, recipe.num_steps)


def _write_baselines(made: Prepared, evaluated: "_Evaluated", claimed_before: bool) -> Baselines | None:
    """Writes and prints what counting can name, of objectives that name tokens; of a run that is resumed, as it stands."""
    folder, known = made.options.model_dir, [part for part in made.learner.objective.parts if part.context]
    if not known:
        return None
    baselines = Baselines.read(folder) if claimed_before else None
    if baselines is None:
        with _naming_damage(made.options, made.source):
            baselines = count_baselines(made.batches, evaluated.kept, known[0], bool(made.options.eval_data_dir))
        baselines.write(folder)
    print_status(baselines.sentence())
    return baselines


def count_baselines(
    batches: Batches, scored: list[dict[str, tf.Tensor]], objective: Objective, held_out: bool
) -> Baselines:
    """What counting can name of the tokens of `scored` that the objective asks for, learnt from the records of `batches`.

    Args:
        held_out: whether `scored` are other records.
    """
    training = dataclasses.replace(batches, grouping=None).once()
    as_arrays = ({name: value.numpy() for name, value in batch.items()} for batch in scored)
    unigram, neighbours = shares_right(training.as_numpy_iterator(), as_arrays, objective.context, held_out)
    return Baselines(unigram, neighbours, objective.accuracy)


def _plateau(baselines: Baselines | None, num_steps: int) -> Callable[[int, dict[str, float]], str | None]:
    """What a line of the log is to be followed by: once, the warning that nothing has been learnt."""

    def warning(step: int, means: dict[str, float]) -> str | None:
        accuracy = means.get(baselines.measure) if baselines else None
        return None if accuracy is None else baselines.warning(accuracy, step, num_steps)

    return warning


def _finish(
    made: Prepared, loop: Loop, state, evaluate: Callable[[], dict[str, float]], baselines: Baselines | None
) -> dict:
    """Hands the network over and writes card, results and report. Returns the last evaluation's means."""
    options, learner = made.options, made.learner
    handed_over = average.hand_over_weights(options.model_dir, learner, options.average_checkpoints)
    if loop.means is None or options.average_checkpoints:  # nothing has evaluated these weights
        loop.watch.evaluated(state.step)
    means = scores(evaluate() if options.average_checkpoints else loop.means or evaluate(), learner.loss_names)
    path = run_folder.write_backbone(
        options.model_dir, learner.backbone, learner.objective, made.tokenizer, options.system
    )
    facts = _facts(made, state, handed_over)
    source = loop.batches[ONLY].source
    if source.lost:
        facts["damaged shards"] = pretraining_records.lost_text(source)
        print_status(f"Damaged shards: {facts['damaged shards']}.")
    title = f"{options.system} ({made.size})"
    run_folder.write_model_card(options.model_dir, title, facts, {**means, **_lines(baselines)})
    run_folder.write_results(options.model_dir, made.recipe.num_steps, state.step, means)
    print_status(f"Report: {write_report(options.model_dir)}")
    print_status(f"Network, heads and vocabulary: {path}")
    return means


def _lines(baselines: Baselines | None) -> dict[str, float]:
    """The baselines among the scores of a model card."""
    named = dataclasses.asdict(baselines) if baselines else {}
    return {name: value for name, value in named.items() if isinstance(value, float)}


def _facts(made: Prepared, state, handed_over: str) -> dict:
    """What the model card lists."""
    options, recipe = made.options, made.recipe
    return {
        "system": options.system, "size": made.size, "parameters": f"{made.num_parameters:,}", "steps": f"{state.step:,}",
        "optimizer": f"{recipe.optimizer}, learning rate {recipe.learning_rate:g}, warm-up {recipe.num_warmup_steps:,}",
        "schedule": recipe.schedule, **pretraining_records.size_facts(options, recipe.batch_size, state.consumed),
        "sequence length": made.records.sequence_length, "vocabulary": f"{len(made.tokenizer.vocabulary):,} pieces",
        "weights": handed_over, "evaluated on": "held-out records" if options.eval_data_dir else "training records",
    }  # fmt: skip


@contextlib.contextmanager
def _naming_damage(options: Options, source: RecordSource):
    """Turns TensorFlow's message about a record that cannot be read into one that names the shard."""
    try:
        yield
    except tf.errors.DataLossError:
        if options.data_dir:
            verify(options.data_dir, source.manifest, deep=True)
        raise


def _leaving_out(options: Options, batches: Batches):
    """What the loop calls when a record cannot be read; None where that ends the run."""
    if options.on_corrupt_shard != "skip" or not options.data_dir:
        return None

    def leave_out(stream, position):
        source, position = pretraining_records.without_damage(options, batches.source, position)
        return dataclasses.replace(batches, source=source), position

    return leave_out


def _learner(options: Options, strategy, recipe: Recipe, source, records: Records) -> tuple[Learner, Batches]:
    step_options.set_precision(options)
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone, objective = recipe.backbone(), recipe.objective()
        named = options.data_dir or options.input_file
        pretraining_network.check_positions(backbone.config, records.sequence_length, named)
        pretraining_records.check_features(options, source, objective, recipe.packings)
        backbone.initialize()
        transform = compose(recipe.frame, objective.transform())
        pretraining_records.check_grouping(options, recipe)
        grouping = pretraining_records.choose_grouping(
            options, source, records, backbone, recipe.batch_size, strategy.num_replicas_in_sync
        )
        keep = objective.batch_features(backbone)
        batches = Batches(source, transform, recipe.batch_size, options.seed, keep, grouping, recipe.num_steps)
        learner = Learner(
            strategy, backbone, single(objective, batches), recipe.make_optimizer(), recipe.clip_norm, options.seed,
            distribution.compiles(options.jit_compile, strategy), step_options.memory_of(options),
        )  # fmt: skip
    return learner, batches


def _start(made: Prepared):
    """Claims the run folder and gives the learner its first weights: of a state, of a checkpoint, or random.

    Returns:
        The state from which training goes on, and the results of a run that is finished already, or None.
    """
    options, learner, source, recipe = made.options, made.learner, made.source, made.recipe
    backbone = learner.backbone
    initial = _initial(options, backbone, made.tokenizer)  # before anything is written
    claim = run_folder.claim(*_run(options, type(backbone), backbone.config, source, recipe, made.records))
    if not claim.state or claim.results is not None:
        if initial and not claim.state:
            pretraining_network.initialize(initial, options.init_checkpoint, backbone, learner.objective)
        position = checkpoints.Position(lost=tuple(sorted(source.lost)))
        return checkpoints.State(0, options.seed, {ONLY: position}, run_id=claim.run_id), claim.results
    state = checkpoints.restore(claim.state, learner)
    state = state.moved(ONLY, pretraining_records.adapt(state.at(ONLY), source))
    print_status(f"Resumed from {claim.state}: step {state.step} of {recipe.num_steps}.")
    return dataclasses.replace(state, run_id=claim.run_id), None


def _initial(options: Options, backbone, tokenizer):
    """The checkpoint to start from, which fits network and vocabulary; None without one."""
    if not options.init_checkpoint:
        return None
    initial = pretraining_network.adopted(convert.load(options.init_checkpoint), type(backbone))
    tokens = tokenizer.vocabulary.tokens
    pretraining_network.check_start(initial, options.init_checkpoint, type(backbone), backbone.config, tokens)
    return initial


def existing_run(options: Options, model: type, config, source, recipe: Recipe, records: Records) -> run_folder.Claim:
    """What --model_dir holds of the run that these make; raises where it holds another one. Changes nothing."""
    return run_folder.existing(*_run(options, model, config, source, recipe, records))


def _run(options: Options, model: type, config, source, recipe: Recipe, records: Records) -> tuple:
    """The arguments of `run_folder.claim`."""
    job = {"job": "pretrain", "model": model.__module__.rsplit(".", 1)[-1], "config": config.to_json()}
    job["records"] = pretraining_records.identity(source)
    flags, settings = dataclasses.asdict(options), _settings(recipe, records)
    return options.model_dir, job, flags, settings, STRUCTURAL, options.resume


def _settings(recipe: Recipe, records: Records) -> dict:
    """The numbers that hold, with the system's defaults filled in, under the names of their flags."""
    return {
        **recipe.settings(),
        "train_batch_size": recipe.batch_size,
        "max_seq_length": records.sequence_length,
        "max_predictions_per_seq": records.num_predictions,
        "clip_norm": recipe.clip_norm,
    }


@dataclasses.dataclass(frozen=True)
class _Evaluated:
    """What scores a run, always the same examples with the same masks: read once, and kept."""

    batches: Batches
    num_batches: int | None

    @functools.cached_property
    def kept(self) -> list[dict[str, tf.Tensor]]:
        return list(self.batches.once(self.num_batches))

    def first_examples(self) -> dict[str, tf.Tensor]:
        return {name: value[:COUNT] for name, value in self.kept[0].items()}


def _evaluated_on(options: Options, batches: Batches) -> Batches:
    """Held-out records, where there are such, else those of the training."""
    if not options.eval_data_dir:
        return batches
    return dataclasses.replace(batches, source=pretraining_records.open_held_out(options, batches.source))


def _evaluation(learner: Learner, evaluated: _Evaluated, kind: str) -> Callable[[], dict[str, float]]:
    """What scores the learner. `kind` is that of the tokenizer."""

    def evaluate() -> dict[str, float]:
        means = learner.evaluate(evaluated.kept)
        return {**means, **of_training(means, kind)}

    return evaluate
