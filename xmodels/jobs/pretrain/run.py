"""Pretrains a published system on records; resumes where it was interrupted."""

import dataclasses
from collections.abc import Callable, Mapping

import keras

from data_pipelines import layout
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.compose import compose
from data_pipelines.options.declaration import structural
from data_pipelines.pretraining.doubts import doubts
from data_pipelines.records.checks import check_contents
from xmodels import systems
from xmodels.conversion import convert
from xmodels.jobs import devices, dry_run, step_options
from xmodels.jobs.average_checkpoints import run as average
from xmodels.jobs.pretrain import batches as pretraining_batches
from xmodels.jobs.pretrain import evaluation, length_schedule, network, plateau, task_streams
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.evaluation import Evaluated
from xmodels.jobs.pretrain.options import Options
from xmodels.jobs.pretrain.prepared import Prepared
from xmodels.jobs.pretrain.system_settings import own_options
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.runs import folder as run_folder
from xmodels.runs import preflight
from xmodels.runs.baselines import Baselines
from xmodels.runs.memory_check import check_resources
from xmodels.runs.report import write_report
from xmodels.training.devices import distribution
from xmodels.training.devices.workers import Workers
from xmodels.training.loop import Loop
from xmodels.training.recipe import Recipe, Records
from xmodels.training.states import checkpoints
from xmodels.training.states.growth import restore_grown
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import Stream, single
from xmodels.training.watching.progress import print_status, scores
from xmodels.training.watching.watching import Watch, profile_steps, watch

STRUCTURAL = (*structural(Options), "masking_rate")
NUMBERS_OF = {  # by `Recipe.origin`, for people
    "small": "those for small networks (docs/small_networks.md); --recipe=published takes the paper's",
    "published": "those of the paper, unless flags override them",
}


def pretrain(options: Options) -> dict[str, float]:
    """Trains, evaluates, and writes the run folder.

    Returns:
        The last evaluation's means; nothing of a dry run, and for workers that are not the chief.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    system = systems.load(options.system)
    preflight.check_writable(options.model_dir)
    network.check_size(options, system)
    own_options(options.set, system)  # raises what is wrong with it
    network.check_mixer(options, system)
    average.check(options.ema_decay, options.average_checkpoints)
    profile_steps(options.profile_steps)  # raises what is wrong with it
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with devices.at_work(options, workers):
        return _pretrain(options, system, strategy, workers)


def _pretrain(options: Options, system, strategy, workers: Workers) -> dict[str, float]:
    made = _prepare(options, system, strategy)
    learner, tokenizer = made.learner, made.tokenizer
    scored = evaluation.scored_streams(options, made.scored(), made.pairs, made.held_out_pairs)
    evaluate = evaluation.evaluation(learner, scored, tokenizer.kind)
    _print_plan(made, strategy.num_replicas_in_sync)
    positions = network.scored_positions(made.recipe, made.records)
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
        baselines = _write_baselines(made, scored)
        samples = evaluation.samples_of(learner, scored, tokenizer, made.recipe.note)
        flags = options.log_norms_steps, options.profile_steps
        watcher = watch(learner, made.batches.zeros(), folder, *flags, samples, _warns(made, system, baselines))
    loop = Loop(
        learner, folder, made.recipe.num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=options.eval_every if options.eval_data_dir else 0, evaluate=evaluate,
        evaluation="evaluation" if options.eval_data_dir else "evaluation on training records",
        select=(lambda means: -means["loss"]) if options.eval_data_dir else None,
        on_data_loss=pretraining_records.leaving_out(options, learner), watch=watcher, max_skipped=options.max_skipped_steps,
        keep=max(options.keep_checkpoint_max, options.average_checkpoints),
    )  # fmt: skip
    with pretraining_records.naming_damage(options, made.source):
        state = loop.run(state)
    return _finish(made, loop, state, evaluate, baselines) if workers.is_chief else {}


def _prepare(options: Options, system, strategy) -> Prepared:
    """Opens the records and builds the network; raises what does not fit."""
    source, tokenizer = pretraining_records.open_records(options)
    for doubt in doubts(source.manifest) if source.manifest else ():
        print_status(f"Warning: {options.data_dir}: {doubt}")
    vocabulary = tokenizer.vocabulary
    records = pretraining_records.record_sizes(options, source, system)
    pairs = task_streams.open_pairs(options, source, len(vocabulary))
    held_out = task_streams.held_out_pairs(options, pairs, source, len(vocabulary))
    records = task_streams.with_pairs(records, pairs)
    pretraining_records.check_words(options, source, system)
    check_contents(source, len(vocabulary))
    config = network.chosen_config(options, system, vocabulary)
    replicas = strategy.num_replicas_in_sync
    recipe = network.recipe_of(options, system, vocabulary, records, config, replicas)
    recipe, tasks = task_streams.scheduled(options, recipe, source, pairs)
    network.check_sizes(options, recipe, replicas)
    own = own_options(options.set, system)

    def streams_of(backbone, objective, batches: Batches) -> dict[str, Stream]:
        if tasks:
            return task_streams.streams(options, recipe, tasks, source, pairs, backbone)
        if not recipe.length_schedule:
            return single(objective, batches)
        phases = length_schedule.phases(recipe.length_schedule, recipe.num_steps, records.sequence_length)
        return length_schedule.streams(
            phases,
            batches,
            objective,
            records,
            lambda shorter: systems.recipe(system, vocabulary, shorter, config, own),
            lambda length, share: pretraining_batches.room(options, system, records.masking_rate, length, share),
        )

    learner, batches = _learner(options, strategy, recipe, source, records, streams_of)
    network.warn_of_order(learner.backbone.config, source)
    network.warn_of_clamp(learner.backbone.config)
    with strategy.scope():
        settings = source.manifest.settings
        scoring = None if tasks else evaluation.scoring_of(system, vocabulary, records, settings, config, own)
    return Prepared(options, source, tokenizer, records, recipe, learner, batches, tasks, pairs, held_out, scoring)


def _print_plan(made: Prepared, num_devices: int) -> None:
    """Prints what is trained, on what, and by which numbers."""
    recipe = made.recipe
    if recipe.origin == "small":
        print_status(f"Hyperparameters: {NUMBERS_OF['small']}.")
    print_status(
        f"{made.options.system} ({made.size}): {made.num_parameters:,} parameters; {made.source.num_examples:,} examples of "
        f"length {made.records.sequence_length}; {recipe.num_steps:,} steps of {recipe.batch_size} on "
        f"{num_devices} device(s); {recipe.optimizer}, learning rate {recipe.learning_rate:g} after "
        f"{recipe.num_warmup_steps:,} warm-up steps ({recipe.schedule}). "
        f"{recipe.layerwise.describe(made.learner.backbone)}{' '.join(filter(None, (made.phases, made.hidden, recipe.note)))}".rstrip()
    )


def _show_dry_run(made: Prepared) -> None:
    """Prints what would be trained. Raises a ReportedError where the first weights do not fit."""
    options, recipe = made.options, made.recipe
    _initial(options, made.learner.backbone, made.tokenizer)
    filled = dry_run.from_recipe(_settings(recipe, made.records), options, f"recipe of {options.system}")
    dry_run.show(options, filled, made.learner, made.batches, made.tokenizer, recipe.num_steps)


def _warns(made: Prepared, system, baselines: Baselines | None) -> Callable[[int, dict[str, float]], str | None]:
    """What tells from the means of a step that nothing has been learnt, and why."""
    recipe, config = made.recipe, made.learner.backbone.config
    small, shorter = network.small_numbers_for(system, config), None
    if small and not recipe.length_schedule and not recipe.tasks:
        text = small.length_schedule(made.records.sequence_length)
        shorter = length_schedule.possible(
            text, made.options, recipe.num_steps, made.records, system.MODEL.carries_memory
        )
    return plateau.watched(baselines, recipe, small, config.hidden_dim, shorter)


def _write_baselines(made: Prepared, scored: Mapping[str, Evaluated]) -> Baselines | None:
    """Writes and prints what counting can name, of the first stream that names tokens."""
    specials, held_out = made.tokenizer.vocabulary.special_ids, bool(made.options.eval_data_dir)
    for name, evaluated in scored.items():
        stream = made.learner.streams[name]
        with pretraining_records.naming_damage(made.options, made.source):
            baselines = evaluation.count_baselines(stream.batches, evaluated.kept, stream.objective, held_out, specials)
        if baselines:
            baselines.write(made.options.model_dir)
            print_status(baselines.sentence())
            return baselines
    return None


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
    source = next(iter(loop.batches.values())).source
    if source.lost:
        facts["damaged shards"] = pretraining_records.lost_text(source)
        print_status(f"Damaged shards: {facts['damaged shards']}.")
    title = f"{options.system} ({made.size})"
    run_folder.write_model_card(options.model_dir, title, facts, {**means, **evaluation.baseline_lines(baselines)})
    run_folder.write_results(options.model_dir, made.recipe.num_steps, state.step, means)
    print_status(f"Report: {write_report(options.model_dir)}")
    print_status(f"Network, heads and vocabulary: {path}")
    return means


def _facts(made: Prepared, state, handed_over: str) -> dict:
    """What the model card lists."""
    options, recipe = made.options, made.recipe
    return {
        "system": options.system, "size": made.size, "hyperparameters": NUMBERS_OF[recipe.origin],
        "parameters": f"{made.num_parameters:,}", "steps": f"{state.step:,}",
        "optimizer": f"{recipe.optimizer}, learning rate {recipe.learning_rate:g}, warm-up {recipe.num_warmup_steps:,}",
        "schedule": recipe.schedule, **pretraining_batches.size_facts(options, recipe.batch_size, state.consumed),
        "sequence length": made.phases or made.records.sequence_length, "vocabulary": f"{len(made.tokenizer.vocabulary):,} pieces",
        **({"masking": made.hidden} if made.hidden else {}), "weights": handed_over,
        "evaluated on": "held-out records" if options.eval_data_dir else "training records",
    }  # fmt: skip


def _learner(
    options: Options, strategy, recipe: Recipe, source, records: Records,
    streams_of: Callable[[Backbone, Objective, Batches], dict[str, Stream]],
) -> tuple[Learner, Batches]:  # fmt: skip
    """The learner, and the batches of its first stream.

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
        transform = compose(recipe.frame, objective.transform())
        pretraining_batches.check_grouping(options, recipe, source)
        grouping = pretraining_batches.choose_grouping(
            options, source, records, backbone, recipe.batch_size, strategy.num_replicas_in_sync
        )
        keep = objective.batch_features(backbone)
        batches = Batches(source, transform, recipe.batch_size, options.seed, keep, grouping, recipe.num_steps)
        streams = streams_of(backbone, objective, batches)
        learner = Learner(
            strategy, backbone, streams, recipe.make_optimizer(), recipe.clip_norm, options.seed,
            distribution.compiles(options.jit_compile, strategy), step_options.memory_of(options),
        )  # fmt: skip
    return learner, next(iter(streams.values())).batches


def _start(made: Prepared):
    """Claims the run folder and gives the learner its first weights: of a state, of a checkpoint, or random.

    Returns:
        The state from which training goes on, and the results of a run that is finished already, or None.
    """
    options, learner, source, recipe = made.options, made.learner, made.source, made.recipe
    backbone = learner.backbone
    initial = _initial(options, backbone, made.tokenizer)  # before anything is written
    of_tasks = task_streams.settings(made.schedule, made.pairs)
    claim = run_folder.claim(*_run(options, type(backbone), backbone.config, source, recipe, made.records, of_tasks))
    if not claim.state or claim.results is not None:
        if initial and not claim.state:
            network.initialize(initial, options.init_checkpoint, backbone, learner.objective)
        position = checkpoints.Position(lost=tuple(sorted(source.lost)))
        begin = dict.fromkeys(learner.streams, position)
        return checkpoints.State(0, options.seed, begin, run_id=claim.run_id), claim.results
    state, new = restore_grown(claim.state, learner)
    if new:
        print_status(f"New heads, which begin with random weights: {', '.join(new)}.")
    for name, stream in learner.streams.items():
        state = state.moved(name, pretraining_records.adapt(state.at(name), stream.batches.source))
    print_status(f"Resumed from {claim.state}: step {state.step} of {recipe.num_steps}.")
    return dataclasses.replace(state, run_id=claim.run_id), None


def _initial(options: Options, backbone, tokenizer):
    """The checkpoint to start from, which fits network and vocabulary; None without one."""
    if not options.init_checkpoint:
        return None
    most, tokens = backbone.config.max_sequence_length * options.extend_positions, tokenizer.vocabulary.tokens
    initial = network.adopted(convert.load(options.init_checkpoint), type(backbone), most)
    network.check_start(initial, options.init_checkpoint, type(backbone), backbone.config, tokens)
    return initial


def existing_run(options: Options, model: type, config, source, recipe: Recipe, records: Records) -> run_folder.Claim:
    """What --model_dir holds of the run that these make; raises where it holds another one. Changes nothing."""
    return run_folder.existing(*_run(options, model, config, source, recipe, records))


def _run(options: Options, model: type, config, source, recipe: Recipe, records: Records, of_tasks=None) -> tuple:
    """The arguments of `run_folder.claim`."""
    job = {"job": "pretrain", "model": model.__module__.rsplit(".", 1)[-1], "config": config.to_json()}
    job["records"] = pretraining_records.identity(source)
    flags, settings = dataclasses.asdict(options), _settings(recipe, records) | (of_tasks or {})
    return options.model_dir, job, flags, settings, STRUCTURAL, options.resume


def _settings(recipe: Recipe, records: Records) -> dict:
    """The numbers that hold, with the system's defaults filled in, under the names of their flags."""
    kind = layout.known(records.packing)
    return {
        **recipe.settings(),
        "train_batch_size": recipe.batch_size,
        "max_seq_length": records.sequence_length,
        "max_predictions_per_seq": records.num_predictions,
        **({"masking_rate": records.masking_rate} if kind and kind.is_framed and not records.static else {}),
        "clip_norm": recipe.clip_norm,
        "length_schedule": recipe.length_schedule,
    }
