"""Pretrains a published system on records; resumes where it was interrupted."""

import dataclasses
import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.classic_records import classic_source
from data_pipelines.corpora.plain_text import expand
from data_pipelines.dataset import Batches, RecordSource
from data_pipelines.errors import DataError, UsageError
from data_pipelines.features import check
from data_pipelines.ops.compose import compose
from data_pipelines.records import write_json
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels import systems
from xmodels.conversion import convert
from xmodels.conversion.formats import config_from, table_of
from xmodels.jobs import run_folder
from xmodels.models.folder import assign, model_name, read_json
from xmodels.training import checkpoints, distribution
from xmodels.training.learner import Learner
from xmodels.training.loop import Loop
from xmodels.training.optimizers import OPTIMIZERS
from xmodels.training.progress import say
from xmodels.training.recipe import Recipe, Records

BATCH = (
    "token_ids", "segment_ids", "padding_mask", "mask_positions", "labels", "label_weights", "next_sentence_labels",
    "example_weights",
)  # fmt: skip
STRUCTURAL = (
    "system", "size", "model_config_file", "max_seq_length", "seed", "optimizer", "mixed_precision", "init_checkpoint",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
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
    num_train_steps: int | None = None
    train_batch_size: int | None = None
    learning_rate: float | None = None
    num_warmup_steps: int | None = None
    optimizer: str | None = None
    save_checkpoints_steps: int = 1000
    log_steps: int = 100
    eval_steps: int = 100
    eval_every: int = 1000
    resume: str = "auto"
    distribution_strategy: str = "one_device"
    num_virtual_devices: int = 0
    mixed_precision: str = "none"
    jit_compile: bool = False
    seed: int = 12345


def pretrain(options: Options) -> dict[str, float]:
    """Trains, evaluates, and writes the run folder. Returns the last evaluation's means.

    Raises:
        ReportedError: of the kind that fits; nothing that existed is destroyed.
    """
    system = systems.load(options.system)
    strategy = distribution.choose(options.distribution_strategy, options.num_virtual_devices)
    source, vocabulary, lower_case = open_records(options)
    records = _records(options, source)
    _check_words(options, source, system)
    config = _config(options, system, len(vocabulary))
    recipe: Recipe = system.recipe(vocabulary, records, options.size, config).override(
        batch_size=options.train_batch_size,
        num_steps=options.num_train_steps,
        learning_rate=options.learning_rate,
        num_warmup_steps=options.num_warmup_steps,
        optimizer=options.optimizer,
    )
    _check_sizes(recipe, strategy, records, options)
    keras.config.set_dtype_policy("mixed_bfloat16" if options.mixed_precision == "bfloat16" else "float32")
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone, objective = recipe.backbone(), recipe.objective()
        backbone.initialize()
        batches = make_batches(source, recipe, objective, options.seed, records)
        check(source.features, _needed(records, objective), source.name or str(options.input_file))
        zeros = {name: tf.zeros(s.shape, s.dtype) for name, s in batches.once(1).element_spec.items()}
        optimizer = OPTIMIZERS[recipe.optimizer](
            recipe.learning_rate, recipe.num_warmup_steps, recipe.num_steps, recipe.weight_decay
        )
        learner = Learner(
            strategy, backbone, objective, optimizer, zeros, recipe.clip_norm, options.seed, options.jit_compile
        )
    tokenizer = WordPieceTokenizer(vocabulary, lower_case).describe()
    job = {"job": "pretrain", "model": model_name(backbone), "config": backbone.config.to_json()}
    job["records"] = source.manifest.settings.get("vocabulary_sha256")
    state_path = run_folder.claim(options.model_dir, job, dataclasses.asdict(options), STRUCTURAL, options.resume)
    run_folder.write_data(options.model_dir, vocabulary, tokenizer, options.data_dir)
    state = checkpoints.State(0, 0, options.seed)
    if state_path:
        state = checkpoints.restore(state_path, learner)
        say(f"Resumed from {state_path}: step {state.step} of {recipe.num_steps}, {state.consumed:,} examples seen.")
    elif options.init_checkpoint:
        initialize(options.init_checkpoint, backbone, objective)
    count = backbone.count_params() + objective.count_params()
    size = os.path.basename(options.model_config_file) if options.model_config_file else options.size
    say(
        f"{options.system} ({size}): {count:,} parameters; {source.num_examples:,} examples of length "
        f"{records.sequence_length}; {recipe.num_steps:,} steps of {recipe.batch_size} on "
        f"{strategy.num_replicas_in_sync} device(s)."
    )
    baseline = unigram_baseline(source, recipe, objective, records)
    if baseline is not None:
        write_json(os.path.join(options.model_dir, "baseline.json"), {"unigram_baseline": baseline})
        say(f"Always naming the commonest hidden token would be right {baseline:.1%} of the time (unigram baseline).")
    evaluate = _evaluation(options, recipe, objective, learner, source, vocabulary)
    loop = Loop(
        learner, batches, options.model_dir, recipe.num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=options.eval_every if options.eval_data_dir else 0, evaluate=evaluate,
    )  # fmt: skip
    state = loop.run(state)
    means = loop.means or evaluate()
    path = run_folder.write_backbone(options.model_dir, backbone, objective, vocabulary, tokenizer)
    facts = {
        "system": options.system, "size": size, "parameters": f"{count:,}", "steps": f"{state.step:,}",
        "examples seen": f"{state.consumed:,}", "vocabulary": f"{len(vocabulary):,} pieces",
        "evaluated on": "held-out records" if options.eval_data_dir else "training records",
    }  # fmt: skip
    if baseline is not None:
        means["unigram_baseline"] = baseline
    run_folder.write_model_card(options.model_dir, f"{options.system} ({size})", facts, means)
    say(f"Network, heads and vocabulary: {path}")
    return means


def open_records(options: Options) -> tuple[RecordSource, Vocabulary, bool]:
    """The records, their vocabulary, and whether text was lower-cased."""
    if bool(options.data_dir) == bool(options.input_file):
        raise UsageError("Give either --data_dir (records of ours) or --input_file (records of Google's script).")
    if options.input_file:
        if not options.vocab_file:
            raise UsageError(
                "--input_file needs --vocab_file: records of Google's script do not name their vocabulary."
            )
        vocabulary = Vocabulary.read(options.vocab_file)
        return classic_source(expand(options.input_file), len(vocabulary)), vocabulary, True
    source = RecordSource(options.data_dir)
    settings = source.manifest.settings
    vocabulary = Vocabulary.read(options.vocab_file or os.path.join(options.data_dir, "vocab.txt"))
    if vocabulary.sha256 != settings["vocabulary_sha256"]:
        raise DataError(
            f"--vocab_file={options.vocab_file}: {len(vocabulary)} pieces, but the records in {options.data_dir} were "
            f"made with another vocabulary of {settings['vocabulary_size']}. Leave the flag out, or make records anew."
        )
    return source, vocabulary, settings["tokenizer"]["do_lower_case"]


def _records(options: Options, source: RecordSource) -> Records:
    settings = source.manifest.settings
    length = settings["max_sequence_length"]
    if options.max_seq_length not in (None, length):
        raise UsageError(
            f"--max_seq_length={options.max_seq_length}: the records were made for {length}. Leave the flag out, or "
            f"run create_pretraining_data with --max_seq_length={options.max_seq_length}."
        )
    static = settings["masking"] == "static"
    if static:
        slots = source.features["masked_lm_ids"].shape[0]
        if options.max_predictions_per_seq not in (None, slots):
            raise UsageError(f"--max_predictions_per_seq={options.max_predictions_per_seq}: the records hold {slots}.")
        return Records(length, slots, static=True)
    slots = options.max_predictions_per_seq or settings["max_predictions_per_seq"]
    return Records(length, slots, settings["masked_lm_prob"])


def _check_words(options: Options, source: RecordSource, system) -> None:
    settings = source.manifest.settings
    if system.NEEDS_WORDS and settings.get("language") == "zh" and settings.get("segmenter") == "none":
        raise DataError(
            f"--system={options.system} hides whole words, but the records in {options.data_dir} hold none: they were "
            "made with --segmenter=none. Make them again with --do_whole_word_mask --segmenter=jieba."
        )


def _config(options: Options, system, vocabulary_size: int):
    if not options.model_config_file:
        return None
    values = read_json(options.model_config_file)
    config_class = system.MODEL.config_class
    if "config" in values:  # a config.json of ours
        config = config_class.from_json(values["config"], options.model_config_file)
    else:
        table = table_of(system.MODEL.__module__.rsplit(".", 1)[-1])
        config = config_from(table.TENSORFLOW1, values, config_class, options.model_config_file)
    if config.vocabulary_size != vocabulary_size:
        raise UsageError(
            f"--model_config_file={options.model_config_file}: vocabulary of {config.vocabulary_size}, but the records' "
            f"has {vocabulary_size} pieces. Set vocab_size to {vocabulary_size}, or make records with its vocabulary."
        )
    return config


def _check_sizes(recipe: Recipe, strategy, records: Records, options: Options) -> None:
    replicas = strategy.num_replicas_in_sync
    if recipe.batch_size % replicas:
        raise UsageError(f"--train_batch_size={recipe.batch_size}: must be a multiple of the {replicas} devices.")
    if recipe.num_warmup_steps > recipe.num_steps:
        raise UsageError(
            f"--num_warmup_steps={recipe.num_warmup_steps} is more than --num_train_steps={recipe.num_steps}. "
            f"A tenth is usual: --num_warmup_steps={recipe.num_steps // 10}."
        )


def _needed(records: Records, objective) -> Mapping:
    return {} if records.static else objective.reads


def make_batches(source, recipe: Recipe, objective, seed: int, records: Records) -> Batches:
    """Framed, corrupted batches with just the features that the network and the objective need."""
    return Batches(source, compose(recipe.frame, objective.transform()), recipe.batch_size, seed, BATCH)


def initialize(source: str, backbone, objective) -> None:
    """Starts from the weights of a checkpoint; heads that it lacks keep their random values."""
    loaded = convert.load(source)
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


def unigram_baseline(source, recipe: Recipe, objective, records: Records, num_batches: int = 20) -> float | None:
    """How often the commonest hidden token of a sample is the hidden token: what a model without context can reach."""
    batches = dataclasses.replace(make_batches(source, recipe, objective, 0, records), batch_size=64)
    labels = [b["labels"].numpy()[b["label_weights"].numpy() > 0] for b in batches.once(num_batches)]
    labels = np.concatenate(labels)
    return float(np.bincount(labels).max() / len(labels)) if len(labels) else None


def _evaluation(options: Options, recipe, objective, learner, source, vocabulary):
    records = _records(options, source)
    if options.eval_data_dir:
        source = RecordSource(options.eval_data_dir)
        settings = source.manifest.settings
        if settings["vocabulary_sha256"] != vocabulary.sha256:
            raise DataError(f"--eval_data_dir={options.eval_data_dir}: made with another vocabulary than the records.")
        if (
            settings["max_sequence_length"] != records.sequence_length
            or (settings["masking"] == "static") != records.static
        ):
            raise DataError(
                f"--eval_data_dir={options.eval_data_dir}: made with another --max_seq_length or --masking."
            )
    batches = make_batches(source, recipe, objective, options.seed, records)
    held: list = []

    def evaluate() -> dict[str, float]:
        held[:] = held or list(batches.once(options.eval_steps))  # the same examples and masks each time
        return learner.evaluate(held)

    return evaluate
