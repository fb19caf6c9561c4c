"""Pretrains a published system on records; resumes where it was interrupted."""

import contextlib
import dataclasses
import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.dataset import Batches, RecordSource
from data_pipelines.errors import DataError, UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.records import verify, write_json
from xmodels import systems
from xmodels.conversion import convert
from xmodels.conversion.formats import config_from, table_of
from xmodels.jobs import average, devices, dry_run, pretraining_records, run_folder, run_report, step_options
from xmodels.jobs.samples import sampler
from xmodels.jobs.step_options import StepOptions
from xmodels.models.folder import assign, model_name, read_json
from xmodels.training import checkpoints, distribution
from xmodels.training.learner import Learner
from xmodels.training.loop import Loop
from xmodels.training.optimizers import OPTIMIZERS
from xmodels.training.progress import say, scores
from xmodels.training.recipe import Recipe, Records
from xmodels.training.watching import profile_steps, watch
from xmodels.training.workers import Workers

BATCH = (
    "token_ids", "segment_ids", "padding_mask", "mask_positions", "labels", "label_weights", "next_sentence_labels",
    "example_weights", "pack_ids", "position_ids", "pack_starts", "target_ids", "target_position_ids",
)  # fmt: skip
STRUCTURAL = (
    "system", "max_seq_length", "max_predictions_per_seq", "wwm_replace_unit", "seed", "optimizer", "init_checkpoint",
    "length_buckets", "pack_rows", "pack_row_length", *step_options.STRUCTURAL,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options(StepOptions):
    """The flags of `xmodels pretrain`; None keeps the recipe's number."""

    system: str
    model_dir: str
    size: str = "base"
    data_dir: str | None = None
    input_file: str | None = None
    vocab_file: str | None = None
    eval_data_dir: str | None = None
    model_config_file: str | None = None
    init_checkpoint: str | None = None
    max_seq_length: int | None = None
    max_predictions_per_seq: int | None = None
    wwm_replace_unit: str = "token"
    num_train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    num_warmup_steps: int | None = None
    optimizer: str | None = None
    save_checkpoints_steps: int = 1000
    log_steps: int = 100
    eval_steps: int = 100
    eval_every: int = 1000
    keep_checkpoint_max: int = 2
    resume: str = "auto"
    distribution_strategy: str = "auto"
    num_virtual_devices: int = 0
    use_tpu: bool = False
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    jit_compile: str | bool = "auto"
    on_corrupt_shard: str = "fail"
    length_buckets: str | None = None
    pack_rows: bool = False
    pack_row_length: int | None = None
    log_norms_steps: int = 0
    profile_steps: str | None = None
    seed: int = 12345
    average_checkpoints: int = 0
    dry_run: bool = False


def pretrain(options: Options) -> dict[str, float]:
    """Trains, evaluates, and writes the run folder.

    Returns:
        The last evaluation's means; nothing of a dry run, and for workers that are not the chief.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    system = systems.load(options.system)
    if options.size not in system.SIZES and not options.model_config_file:
        raise UsageError(f"--size={options.size}: --system={options.system} has {', '.join(system.SIZES)}.")
    average.check(options.ema_decay, options.average_checkpoints)
    profile_steps(options.profile_steps)  # raises what is wrong with it
    strategy = devices.choose(options)
    workers = Workers(strategy)
    with workers.together():
        return _pretrain(options, system, strategy, workers)


def _pretrain(options: Options, system, strategy, workers: Workers) -> dict[str, float]:
    source, tokenizer = pretraining_records.open_records(options)
    vocabulary = tokenizer.vocabulary
    records = pretraining_records.record_sizes(options, source)
    pretraining_records.check_words(options, source, system)
    config = _config(options, system, len(vocabulary))
    recipe: Recipe = system.recipe(vocabulary, records, options.size, config).override(
        batch_size=options.train_batch_size,
        num_steps=options.num_train_steps,
        learning_rate=options.learning_rate,
        num_warmup_steps=options.num_warmup_steps,
        optimizer=options.optimizer,
        clip_norm=options.clip_norm,
    )
    _check_sizes(recipe, strategy, options)
    learner, batches = _learner(options, strategy, recipe, source, records)
    backbone, objective = learner.backbone, learner.objective
    evaluated = _evaluated_on(options, batches)
    evaluate = _evaluation(options, learner, evaluated)
    count = backbone.count_params() + objective.count_params()
    size = os.path.basename(options.model_config_file) if options.model_config_file else options.size
    say(
        f"{options.system} ({size}): {count:,} parameters; {source.num_examples:,} examples of length "
        f"{records.sequence_length}; {recipe.num_steps:,} steps of {recipe.batch_size} on "
        f"{strategy.num_replicas_in_sync} device(s); {recipe.optimizer}, learning rate {recipe.learning_rate:g} after "
        f"{recipe.num_warmup_steps:,} warm-up steps."
    )
    if options.dry_run:
        if options.init_checkpoint:
            convert.load(options.init_checkpoint)  # raises what is wrong with it
        filled = dry_run.from_recipe(_settings(recipe, records), options, f"recipe of {options.system}")
        dry_run.show(options, filled, learner, batches, tokenizer, recipe.num_steps)
        return {}
    state, results = devices.start(workers, learner, lambda: _start(options, learner, source, recipe, records))
    if results is not None:
        run_folder.say_finished(options.model_dir, "--num_train_steps")
        return results
    if workers.is_chief:
        run_folder.write_data(options.model_dir, tokenizer, options.data_dir)
        with _naming_damage(options, source):
            baseline = unigram_baseline(batches)
        write_json(os.path.join(options.model_dir, "baseline.json"), {"unigram_baseline": baseline})
        say(f"Always naming the commonest hidden token would be right {baseline:.1%} of the time (unigram baseline).")
    folder = workers.folder(options.model_dir)
    watcher = watch(
        learner, batches.zeros(), folder, options.log_norms_steps, options.profile_steps,
        sampler(learner, evaluated, tokenizer),
    )  # fmt: skip
    loop = Loop(
        learner, batches, folder, recipe.num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=options.eval_every if options.eval_data_dir else 0, evaluate=evaluate,
        select=(lambda means: -means["loss"]) if options.eval_data_dir else None,
        on_data_loss=_leaving_out(options, batches), watch=watcher, max_skipped=options.max_skipped_steps,
        keep=max(options.keep_checkpoint_max, options.average_checkpoints),
    )  # fmt: skip
    with _naming_damage(options, source):
        state = loop.run(state)
    if not workers.is_chief:
        return {}
    handed_over = average.put_in_place(options.model_dir, learner, options.average_checkpoints)
    source = loop.batches.source
    if loop.means is None or options.average_checkpoints:  # these weights were not looked at
        watcher.evaluated(state.step)
    means = scores(evaluate() if options.average_checkpoints else loop.means or evaluate(), learner.loss_names)
    path = run_folder.write_backbone(options.model_dir, backbone, objective, tokenizer)
    facts = {
        "system": options.system, "size": size, "parameters": f"{count:,}", "steps": f"{state.step:,}",
        "optimizer": f"{recipe.optimizer}, learning rate {recipe.learning_rate:g}, warm-up {recipe.num_warmup_steps:,}",
        "batch size": f"{recipe.batch_size:,}", "sequence length": records.sequence_length,
        "rows seen" if options.pack_rows else "examples seen": f"{state.consumed:,}", "vocabulary": f"{len(vocabulary):,} pieces",
        "weights": handed_over,
        "evaluated on": "held-out records" if options.eval_data_dir else "training records",
    }  # fmt: skip
    if source.lost:
        facts["damaged shards"] = pretraining_records.lost_text(source)
        say(f"Damaged shards: {facts['damaged shards']}.")
    results = {**means, "unigram_baseline": baseline}
    run_folder.write_model_card(options.model_dir, f"{options.system} ({size})", facts, results)
    run_folder.write_results(options.model_dir, recipe.num_steps, state.step, means)
    run_report.write(options.model_dir)
    say(f"Network, heads and vocabulary: {path}")
    return means


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

    def leave_out(state):
        source, state = pretraining_records.without_damage(options, batches.source, state)
        return dataclasses.replace(batches, source=source), state

    return leave_out


def _learner(options: Options, strategy, recipe: Recipe, source, records: Records) -> tuple[Learner, Batches]:
    step_options.set_precision(options)
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone, objective = recipe.backbone().initialize(), recipe.objective()
        if not records.static:  # static records hold what comes out of the objective's transform
            pretraining_records.check_features(options, source, objective, recipe.packings)
        transform = compose(recipe.frame, objective.transform())
        grouping = pretraining_records.choose_grouping(options, source, records, backbone, recipe.batch_size)
        batches = Batches(source, transform, recipe.batch_size, options.seed, BATCH, grouping)
        optimizer = OPTIMIZERS[recipe.optimizer](
            recipe.learning_rate, recipe.num_warmup_steps, recipe.num_steps, recipe.weight_decay
        )
        learner = Learner(
            strategy, backbone, objective, optimizer, batches.zeros(), recipe.clip_norm, options.seed,
            distribution.compiles(options.jit_compile, strategy), options.memory,
        )  # fmt: skip
    return learner, batches


def _start(options: Options, learner: Learner, source, recipe: Recipe, records: Records):
    """Claims the run folder and gives the learner its first weights: of a state, of a checkpoint, or random.

    Returns:
        The state from which training goes on, and the results of a run that is finished already, or None.
    """
    backbone, objective = learner.backbone, learner.objective
    job = {"job": "pretrain", "model": model_name(backbone), "config": backbone.config.to_json()}
    job["records"] = pretraining_records.identity(source)
    initial = options.init_checkpoint and convert.load(options.init_checkpoint)  # before anything is written
    flags, settings = dataclasses.asdict(options), _settings(recipe, records)
    claim = run_folder.claim(options.model_dir, job, flags, settings, STRUCTURAL, options.resume)
    if not claim.state or claim.results is not None:
        if initial and not claim.state:
            initialize(initial, options.init_checkpoint, backbone, objective)
        return checkpoints.State(0, 0, options.seed, lost=tuple(sorted(source.lost))), claim.results
    state = pretraining_records.adapt(checkpoints.restore(claim.state, learner), source)
    say(f"Resumed from {claim.state}: step {state.step} of {recipe.num_steps}, {state.consumed:,} examples seen.")
    return state, None


def _settings(recipe: Recipe, records: Records) -> dict:
    """The numbers that hold, with the system's defaults filled in, under the names of their flags."""
    return {
        "num_train_steps": recipe.num_steps,
        "train_batch_size": recipe.batch_size,
        "learning_rate": recipe.learning_rate,
        "num_warmup_steps": recipe.num_warmup_steps,
        "optimizer": recipe.optimizer,
        "max_seq_length": records.sequence_length,
        "max_predictions_per_seq": records.num_predictions,
        "weight_decay": recipe.weight_decay,
        "clip_norm": recipe.clip_norm,
    }


def _config(options: Options, system, vocabulary_size: int):
    if not options.model_config_file:
        return None
    values = read_json(options.model_config_file)
    config_class = system.MODEL.config_class
    if "config" in values:  # a config.json of ours
        config = config_class.from_json(values["config"], options.model_config_file)
    else:
        table = table_of(system.MODEL.__module__.rsplit(".", 1)[-1])
        form = getattr(table, "TENSORFLOW1", table.HUGGING_FACE)
        config = config_from(form, values, config_class, options.model_config_file)
    if config.vocabulary_size != vocabulary_size:
        raise UsageError(
            f"--model_config_file={options.model_config_file}: vocabulary of {config.vocabulary_size}, but the records' "
            f"has {vocabulary_size} pieces. Set vocab_size to {vocabulary_size}, or make records with its vocabulary."
        )
    return config


def _check_sizes(recipe: Recipe, strategy, options: Options) -> None:
    step_options.check_batch_size(options, recipe.batch_size, strategy.num_replicas_in_sync)
    if recipe.num_warmup_steps > recipe.num_steps:
        raise UsageError(
            f"--num_warmup_steps={recipe.num_warmup_steps} is more than --num_train_steps={recipe.num_steps}. "
            f"A tenth is usual: --num_warmup_steps={recipe.num_steps // 10}."
        )


def initialize(loaded, source: str, backbone, objective) -> None:
    """Starts from the weights of a checkpoint; heads that it lacks keep their random values."""
    if loaded.config.vocabulary_size != backbone.config.vocabulary_size:
        raise UsageError(
            f"--init_checkpoint={source}: its vocabulary has {loaded.config.vocabulary_size} pieces, that of the "
            f"records {backbone.config.vocabulary_size}. Make the records with the vocabulary of the checkpoint."
        )
    assign("backbone", backbone, loaded.values, source)
    held = {name for name in loaded.values if name.startswith("objective.")}
    for part in objective.parts:
        if any(name.startswith(part.prefix) for name in held):
            assign(part.prefix, part, loaded.values, source)
    for warning in loaded.warnings:
        say(f"Note: {warning}")
    say(
        f"Initial weights from {source}" + (f", with heads {', '.join(sorted(loaded.heads))}." if loaded.heads else ".")
    )


def unigram_baseline(batches: Batches, num_examples: int = 1280) -> float:
    """How often the commonest hidden token of a sample is the hidden token: what a model without context can reach."""
    sample = dataclasses.replace(batches, batch_size=64).once(num_examples // 64)
    labels = np.concatenate([b["labels"].numpy()[b["label_weights"].numpy() > 0] for b in sample])
    return float(np.bincount(labels).max() / max(1, len(labels))) if len(labels) else 0.0


def _evaluated_on(options: Options, batches: Batches) -> Batches:
    """Held-out records, where there are such, else those of the training."""
    if not options.eval_data_dir:
        return batches
    source = RecordSource(options.eval_data_dir)
    for name in ("vocabulary_sha256", "max_sequence_length", "masking"):
        found, wanted = (s.manifest.settings.get(name) for s in (source, batches.source))
        if found != wanted:
            raise DataError(
                f"--eval_data_dir={options.eval_data_dir}: {name} is {found}, that of the records {wanted}."
            )
    return dataclasses.replace(batches, source=source)


def _evaluation(options: Options, learner: Learner, batches: Batches) -> Callable[[], dict[str, float]]:
    """What scores the learner: always the same examples with the same masks."""
    held: list = []

    def evaluate() -> dict[str, float]:
        held[:] = held or list(batches.once(options.eval_steps))
        return learner.evaluate(held)

    return evaluate
