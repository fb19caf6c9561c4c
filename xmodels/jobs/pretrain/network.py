"""The network that a pretraining trains and the numbers by which it learns, checked against the flags and the records.

`options` are the `Options` of `jobs.pretrain`.
"""

import dataclasses
import difflib

import numpy as np

from data_pipelines import layout
from data_pipelines.errors import UsageError
from data_pipelines.records.checks import count_ids
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from xmodels import systems
from xmodels.conversion.configurations import config_from
from xmodels.conversion.formats import has_table, table_for, table_of
from xmodels.jobs.pretrain import length_schedule, system_settings
from xmodels.jobs.pretrain.batches import rows_per_batch
from xmodels.jobs.pretrain.initial_parts import named_parts
from xmodels.jobs.step_options import check_batch_size
from xmodels.models import mixing
from xmodels.models.config import TokenConfig
from xmodels.models.folder import read_json
from xmodels.models.mixing import PREFIX, MixerConfig
from xmodels.training.optimizers.optimization import NUMBERS
from xmodels.training.recipe import SMALLEST_LAMB_BATCH, Recipe, Records
from xmodels.training.small import Small, is_small
from xmodels.training.watching.progress import print_status

SORTED = 0.8  # share of the text that a good first cluster would hold, from which on the order is good enough
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
        mixing.check_mixer(options.mixer, system.MODEL)
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
    if options.recipe == "auto" and (options.init_checkpoint or options.model_config_file or named_parts(options)):
        return None
    if options.recipe == "auto" and not is_small(system, options.size):
        return None
    return None if options.recipe == "published" else known


def small_numbers_for(system, config: TokenConfig) -> Small | None:
    """Returns the numbers that --recipe=small gives a network narrower than the system's `base`; None where there are none, or
    it is wider."""
    is_narrow = config.hidden_dim < system.SIZES["base"]["hidden_dim"]
    return vars(system).get("SMALL") if is_narrow else None


def make_config(options, system, vocabulary: Vocabulary) -> TokenConfig:
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
    config = system_settings.apply_network_settings(options.set, system, config)
    if getattr(config, "target_vocabulary_size", None) not in (None, len(vocabulary)):
        raise UsageError(
            f"target_vocabulary_size {config.target_vocabulary_size}: records have one vocabulary for source and target, here of "
            f"{len(vocabulary)} pieces. Leave it out; --set=share_embeddings=none gives each side a table of its own."
        )
    small = None if options.model_config_file else small_numbers(options, system)
    return system_settings.apply_network_settings(options.set, system, small.shrink_config(config)) if small else config


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
        if values.get("model_type") and table_for(values)[1] == systems.model_of(system):
            table = table_for(values)[0]  # that of its mixer
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


def make_recipe(
    options, system, vocabulary: Vocabulary, records: Records, config: TokenConfig, num_replicas: int = 1
) -> Recipe:
    """Returns the system's recipe for these records, with the numbers of the flags."""
    own = system_settings.parse_system_options(options.set, system)
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
    schedule = length_schedule.choose_schedule(options, recipe, records, system.MODEL.carries_memory)
    recipe = dataclasses.replace(recipe, length_schedule=schedule)
    if options.optimizer:
        return recipe
    suited = recipe.adapt_to_batch(options.learning_rate)
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
