"""The network that a pretraining trains: its sizes, checked against the records, and the weights that it starts from.

`options` are the `Options` of `jobs.pretrain`.
"""

import dataclasses
import difflib
from collections.abc import Mapping

import numpy as np

from data_pipelines import layout
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.records.checks import count_ids
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary, first_difference
from xmodels import systems
from xmodels.conversion.configurations import config_from
from xmodels.conversion.formats import has_table, table_of
from xmodels.conversion.positions import extend_positions
from xmodels.jobs.pretrain import length_schedule, system_settings
from xmodels.jobs.pretrain.batches import rows_per_batch
from xmodels.jobs.step_options import check_batch_size
from xmodels.layers import mixers
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig
from xmodels.models.folder import assign, name_of, read_json
from xmodels.models.mixing import PREFIX, MixerConfig
from xmodels.training.optimizers.optimization import NUMBERS
from xmodels.training.recipe import SMALLEST_LAMB_BATCH, Recipe, Records
from xmodels.training.small import Small, is_small
from xmodels.training.watching.progress import print_status

SORTED = 0.8  # share of the text that a good first cluster would hold, from which on the order is good enough
OF_WEIGHTS = ("share_embeddings",)  # choices on which it depends which weights there are
SAME_NAMES = (
    "learning_rate", "num_warmup_steps", "optimizer", *NUMBERS, "min_lr_ratio", "lr_power", "layerwise_lr_decay",
)  # fmt: skip


def check_size(options, system) -> None:
    """Raises a UsageError where the system has no network of that size."""
    if options.size not in system.SIZES and not options.model_config_file:
        near = difflib.get_close_matches(options.size, system.SIZES, 1, 0.3)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"--size={options.size}: --system={options.system} has {', '.join(system.SIZES)}.{hint}")


def check_mixer(options, system) -> None:
    """Raises a UsageError where --mixer names none, or the system's network has no choice of it or asks more of it."""
    if not options.mixer:
        return
    if not issubclass(system.MODEL.config_class, MixerConfig):
        raise UsageError(
            f"--mixer={options.mixer}: the attention of --system={options.system} cannot be chosen. Leave the flag out, or take "
            "a system such as bert or gpt2."
        )
    try:
        mixers.check_supports(mixers.find(options.mixer), system.MODEL.mixer_must_support)
    except ValueError as error:
        raise UsageError(f"--mixer={options.mixer}: {error}") from None


def small_numbers(options, system) -> Small | None:
    """Returns the numbers of small networks, where --recipe asks for them, or where a size narrower than the system's `base`
    begins with random weights; None where the paper's hold.

    Raises:
        UsageError: --recipe=small, but the system has no such numbers.
    """
    known = vars(system).get("SMALL")
    if options.recipe == "small" and known is None:
        raise UsageError(
            f"--recipe=small: --system={options.system} has the numbers of its paper only. Leave the flag out, or take one of "
            f"{', '.join(name for name in systems.names() if hasattr(systems.load(name), 'SMALL'))}."
        )
    if options.recipe == "auto" and (options.init_checkpoint or options.model_config_file):
        return None
    if options.recipe == "auto" and not is_small(system, options.size):
        return None
    return None if options.recipe == "published" else known


def small_numbers_for(system, config: TokenConfig) -> Small | None:
    """Returns the numbers that --recipe=small gives a network narrower than the system's `base`; None where there are none, or
    it is wider."""
    is_narrow = config.hidden_dim < system.SIZES["base"]["hidden_dim"]
    return vars(system).get("SMALL") if is_narrow else None


def chosen_config(options, system, vocabulary: Vocabulary) -> TokenConfig:
    """Returns the configuration that --model_config_file or --size names, with what --recipe, --mixer and --set change of it.
    What a file says holds for every recipe.

    Raises:
        UsageError: its vocabulary has another size than that of the records, or --set does not suit it.
        CheckpointError: it is no configuration of the system's network.
    """
    if options.model_config_file:
        config = _config_of_file(options, system, len(vocabulary))
    else:
        config = systems.configuration(system, vocabulary, options.size)
    if options.mixer:
        config = dataclasses.replace(config, mixer=options.mixer)
    config = system_settings.network_config(options.set, system, config)
    if getattr(config, "target_vocabulary_size", None) not in (None, len(vocabulary)):
        raise UsageError(
            f"target_vocabulary_size {config.target_vocabulary_size}: records have one vocabulary for source and target, here of "
            f"{len(vocabulary)} pieces. Leave it out; --set=share_embeddings=none gives each side a table of its own."
        )
    small = None if options.model_config_file else small_numbers(options, system)
    return system_settings.network_config(options.set, system, small.configured(config)) if small else config


# Keys that tell Hugging Face's config.json from Google's, whose `gelu` is another one.
OF_HUGGING_FACE = {"architectures", "layer_norm_eps", "model_type", "transformers_version"}


def _config_of_file(options, system, vocabulary_size: int) -> TokenConfig:
    values = read_json(options.model_config_file)
    config_class = system.MODEL.config_class
    if "config" in values:  # a config.json of ours
        config = config_class.from_json(_with_mixer(values["config"], options.mixer), options.model_config_file)
    elif (
        not has_table(systems.model_of(system)) or "vocabulary_size" in values or "hidden_dim" in values
    ):  # names of ours
        config = config_class.from_json(_with_mixer(values, options.mixer), options.model_config_file)
    else:
        table = table_of(systems.model_of(system))
        theirs = OF_HUGGING_FACE & values.keys() or not table.tensorflow1
        form = table.hugging_face if theirs else table.tensorflow1
        config = config_from(form, values, config_class, options.model_config_file)
    if not config.holds(vocabulary_size):
        raise UsageError(
            f"--model_config_file={options.model_config_file}: vocabulary of {config.vocabulary_size}, but the records' "
            f"has {vocabulary_size} pieces. Set vocab_size to {vocabulary_size}, or make records with its vocabulary."
        )
    return config


def _with_mixer(values: dict, mixer: str | None) -> dict:
    """Returns the fields of a file with the mixer of --mixer, and with its numbers unless they are of another mixer."""
    if not mixer:
        return values
    is_other = values.get("mixer", mixer) != mixer
    return {name: v for name, v in values.items() if not (is_other and name.startswith(PREFIX))} | {"mixer": mixer}


def recipe_of(
    options, system, vocabulary: Vocabulary, records: Records, config: TokenConfig, num_replicas: int = 1
) -> Recipe:
    """Returns the system's recipe for these records, with the numbers of the flags."""
    own = system_settings.own_options(options.set, system)
    recipe = systems.recipe(system, vocabulary, records, config, own)
    if small := small_numbers(options, system):
        recipe = small.recipe(recipe, records.sequence_length, config.hidden_dim, options.optimizer)
    recipe = recipe.override(
        batch_size=rows_per_batch(options, records, num_replicas),
        num_steps=options.num_train_steps,
        clip_norm=options.clip_norm,
        schedule=options.lr_schedule,
        **{name: getattr(options, name) for name in SAME_NAMES},
    )
    schedule = length_schedule.chosen(options, recipe, records, system.MODEL.carries_memory)
    recipe = dataclasses.replace(recipe, length_schedule=schedule)
    if options.optimizer:
        return recipe
    suited = recipe.suited_to_batch(options.learning_rate)
    if suited is not recipe:
        print_status(
            f"Batches of {recipe.batch_size}: {recipe.optimizer}, the published optimizer of --system={options.system}, is meant for "
            f"batches of {SMALLEST_LAMB_BATCH} or more. Used instead: {suited.optimizer}, learning rate {suited.learning_rate:g}; "
            f"--optimizer={recipe.optimizer} trains as published."
        )
    return suited


def check_sizes(options, recipe: Recipe, num_replicas: int) -> None:
    """Raises a UsageError where numbers of a training contradict each other or the devices."""
    check_batch_size(options, recipe.batch_size, num_replicas)
    if recipe.num_warmup_steps > recipe.num_steps:
        raise UsageError(
            f"--num_warmup_steps={recipe.num_warmup_steps} is more than --num_train_steps={recipe.num_steps}. "
            f"A tenth is usual: --num_warmup_steps={recipe.num_steps // 10}."
        )


def scored_positions(recipe: Recipe, records: Records) -> int:
    """Returns at how many tokens of an example the vocabulary is scored."""
    return records.sequence_length if layout.find(recipe.packings[0]).scores_all else records.num_predictions


def check_positions(config: TokenConfig, sequence_length: int, source: str) -> None:
    """Raises a UsageError where examples are longer than the network has positions."""
    if not config.reads(sequence_length):
        raise UsageError(
            f"{source}: examples of {sequence_length} tokens, but the network has {config.longest} positions. "
            f"Make records with --max_seq_length={config.longest} or less, or give the network more: "
            f"--set=max_sequence_length={sequence_length}, or max_position_embeddings in --model_config_file."
        )


def warn_of_order(config: TokenConfig, source: RecordSource) -> None:
    """Says so where the first cluster of an adaptive softmax is not made of the commonest tokens."""
    if not getattr(config, "cutoffs", ()):
        return
    counts, size = count_ids(source, config.vocabulary_size)[1:], config.cutoffs[0]  # but for padding
    first, best = counts[: size - 1].sum(), np.sort(counts)[::-1][: size - 1].sum()
    if first < SORTED * best:
        print_status(
            f"Warning: the vocabulary is not sorted by frequency: its first {size:,} tokens, the first cluster of the adaptive "
            f"softmax, are {first / counts.sum():.0%} of the text in {source.name}; the most frequent ones are "
            f"{best / counts.sum():.0%}. Use a vocabulary of `train_vocabulary --tokenizer=words`, or cutoffs [] in "
            "--model_config_file."
        )


def warn_of_clamp(config: TokenConfig) -> None:
    """Says so where distances beyond a limit are alike in training already."""
    if limit := getattr(config, "clamp_length", None):
        print_status(
            f"Warning: clamp_length={limit} is for evaluation with a long memory: to a network that is trained with it, all "
            f"distances from {limit} on look alike. Leave it out, and give it to a network that has been trained."
        )


def adapt_checkpoint(loaded: Checkpoint, model: type, num_positions: int = 0) -> Checkpoint:
    """Returns the checkpoint as one of the network `model`, where that may begin as the other network.

    Args:
        num_positions: that it gets, where it has fewer.
    """
    name, config, values = model.adopt(loaded.model, loaded.config, loaded.values)
    return extend_positions(dataclasses.replace(loaded, model=name, config=config, values=dict(values)), num_positions)


def check_start(loaded: Checkpoint, source: str, model: type, config: TokenConfig, tokens: list[str] | None) -> None:
    """Checks that the weights of a checkpoint are those of this network and of the records' vocabulary.

    Args:
        loaded: the checkpoint `source`.
        model, config: the class of the network that is to start from it, and its configuration.
        tokens: those of the records' vocabulary, in order of their ids.

    Raises:
        CheckpointError: another architecture or other sizes.
        UsageError: another vocabulary, or its tokens in another order.
    """
    name = name_of(model)
    if loaded.model != name:
        raise CheckpointError(
            f"--init_checkpoint={source}: holds the network {loaded.model!r}, but --system trains {name!r}. Give a checkpoint "
            f"of {name!r}, or a --system that trains {loaded.model!r}."
        )
    _check_vocabulary(loaded, source, config.vocabulary_size, tokens)
    there, here = loaded.config.values(), config.values()
    unused = ("dropout", "initializer_stddev")  # by loaded weights
    differ = {n: (there.get(n), here[n]) for n in here if there.get(n) != here[n] and not n.endswith(unused)}
    listed = ", ".join(f"{n} {a} there, {b} here" for n, (a, b) in sorted(differ.items()))
    longer = not loaded.config.reads(config.longest or 0)
    hint = " --extend_positions makes the positions that it lacks." if longer else ""
    shapes = {n for n, (_, value) in differ.items() if type(value) is int} - config.of_no_weight
    if shapes or differ.keys() & set(OF_WEIGHTS):
        raise CheckpointError(
            f"--init_checkpoint={source}: is of another size ({listed}). Give the --size of the checkpoint, or "
            f"--model_config_file with the config.json that lies in its folder.{hint}"
        )
    if differ:
        print_status(
            f"Warning: --init_checkpoint={source} was trained with other settings ({listed}). To keep its own, give "
            "--model_config_file with the config.json in its folder."
        )


def _check_vocabulary(loaded: Checkpoint, source: str, size: int, tokens: list[str] | None) -> None:
    if loaded.config.vocabulary_size != size:
        raise UsageError(
            f"--init_checkpoint={source}: its vocabulary has {loaded.config.vocabulary_size} pieces, that of the "
            f"records {size}. Make the records with the vocabulary of the checkpoint."
        )
    known = tokens_of(loaded)
    place = first_difference(known, tokens) if known and tokens else None
    if place is None:
        return
    raise UsageError(
        f"--init_checkpoint={source}: its vocabulary has as many pieces as that of the records, but others or in another order: "
        f"id {place} is {known[place : place + 1]} there, {tokens[place : place + 1]} here. "
        "Make the records with the vocabulary of the checkpoint."
    )


def tokens_of(loaded: Checkpoint) -> list[str] | None:
    """Returns the tokens of a checkpoint's vocabulary, in order of their ids; None where it has none."""
    return loaded.tokenizer.open().vocabulary.tokens if loaded.tokenizer else None


def initialize(loaded: Checkpoint, source: str, backbone, objective) -> None:
    """Starts from the weights of a checkpoint that `check_start` accepts; heads that it lacks keep random values.

    A stage may have other objectives than the one before: heads of the same name and shapes are taken over, the others are
    named.
    """
    assign("backbone", backbone, loaded.values, source)
    for warning in loaded.warnings:
        print_status(f"Note: {warning}")
    taken, new = assign_heads(objective, loaded.values)
    left = sorted(loaded.heads - set(taken))
    print_status(f"Initial weights from {source}" + (f", with heads {', '.join(taken)}." if taken else "."))
    if new:
        print_status(f"Heads that start with random weights, because {source} has none that fit: {', '.join(new)}.")
    if left:
        print_status(f"Heads of {source} that are not used here: {', '.join(left)}.")


def assign_heads(objective, values: Mapping[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """Gives the heads of an objective their weights from a checkpoint; returns the names of those that have them from there, and
    of those that keep random ones, because theirs are missing or of other shapes."""
    taken, new = [], []
    for part in objective.parts:
        weights = {f"{part.prefix}.{name}": variable for name, variable in named_weights(part).items()}
        found = {name: value.shape for name, value in values.items() if name.startswith(f"{part.prefix}.")}
        if not weights:
            continue
        if found == {name: tuple(variable.shape) for name, variable in weights.items()}:
            for name, variable in weights.items():
                variable.assign(values[name])
            taken.append(part.label)
        else:
            new.append(part.label)
    return sorted(taken), sorted(new)
