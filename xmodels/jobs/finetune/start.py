"""What a fine-tuning starts from: the reader of its task, a checkpoint, and a tokenizer."""

import dataclasses
import json
import math

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import first_difference
from xmodels import systems
from xmodels.conversion import convert
from xmodels.conversion.kept_layers import keep_layers
from xmodels.conversion.positions import extend_positions
from xmodels.layers.poolings import PUBLISHED
from xmodels.models.adapters import adapter_weights, add_adapters
from xmodels.models.backbone import Backbone
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import assign, build_with, model_class
from xmodels.objectives.base import Objective
from xmodels.runs.fine_tuned import read_task
from xmodels.tasks.base.auxiliary_lm import LanguageModelOfTexts, WithLanguageModel
from xmodels.tasks.base.find import load_part
from xmodels.tasks.base.read import Reader
from xmodels.tasks.base.task import Task
from xmodels.training.finetuning import (
    AUXILIARY_LM,
    LANGUAGE_MODEL,
    TASK,
    TOKENS,
    FineTuning,
    Phase,
    language_model_phase,
)
from xmodels.training.watching.progress import print_status

READ_BY_HEADS = "features", "normalize"  # settings of siamese networks, from which their heads read


def reader_of(options) -> Reader:
    """Reads the files of the task that --task names."""
    return load_part(options.task, "read").Reader(options.task, options)


def load_checkpoint_and_tokenizer(options, reader: Reader):
    """Returns the checkpoint to start from, or a network without weights, and the tokenizer, as the task needs them."""
    begun = reader.begin()
    if begun is None:
        loaded = convert.load(reader.checkpoint)
        system = systems.of_model(loaded.system, loaded.model, reader.checkpoint)
        loaded = dataclasses.replace(loaded, system=system and systems.name_of(system))
        if options.init_layers and reader.checkpoint == options.init_checkpoint:  # a phase before has kept them already
            loaded = keep_layers(loaded, options.init_layers, options.init_checkpoint)
        begun = loaded, open_tokenizer_of(options, loaded)
    elif options.init_layers:
        raise UsageError(
            f"--init_layers={options.init_layers}: the network of --init_checkpoint={options.init_checkpoint} is new: it has no "
            "layers to keep. Say how many it has by --model_config_file."
        )
    loaded, tokenizer = reader.prepare(*begun)
    if options.extend_positions and (longer := extend_positions(loaded, reader.num_positions)) is not loaded:
        print_status(f"Note: {longer.warnings[-1]}")
        loaded = longer
    return loaded, tokenizer


def build_backbone(options, loaded: Checkpoint) -> Backbone:
    """Returns the network of a checkpoint, with its weights where these are not to be random."""
    network = model_class(loaded.model)
    if not loaded.values or options.random_init:
        return network(loaded.config).initialize()
    return build_with(network, loaded.config, loaded.values, options.init_checkpoint)


def begin_adapters(options, backbone: Backbone) -> None:
    """Gives a network the adapters that the flags ask for, and says how many weights they have."""
    count = add_adapters(backbone, options.lora_rank, options.lora_alpha, lora_layers(options))
    trained = sum(math.prod(weight.shape) for weight in adapter_weights(backbone).values())
    print_status(
        f"LoRA: {count} layers have adapters of rank {options.lora_rank}, {trained:,} weights beside "
        f"{backbone.count_params() - trained:,} that stay as they are."
    )


def lora_layers(options) -> tuple[str, ...]:
    """Returns the names in --lora_layers."""
    return tuple(filter(None, (name.strip() for name in options.lora_layers.split(","))))


def check_adapters(options, loaded: Checkpoint) -> None:
    """Raises a UsageError where flags ask for what adapters exclude."""
    if not options.lora_rank:
        return
    others = {
        "freeze_backbone": options.freeze_backbone, "random_init": options.random_init or not loaded.values,
        "extend_positions": options.extend_positions,
        "gradual_unfreezing": options.gradual_unfreezing, "language_model_epochs": options.language_model_epochs,
        "layerwise_lr_decay": options.layerwise_lr_decay != 1.0,
    }  # fmt: skip
    for name in filter(others.get, others):
        raise UsageError(
            f"--lora_rank={options.lora_rank}: adapters learn beside a trained network that stays as it is, so --{name} does not go "
            "with them"
            + (" (this network has random weights)." if name == "random_init" else ". Leave one of the two out.")
        )
    if not lora_layers(options):
        raise UsageError("--lora_layers: names no layer; query,value is usual.")


def finetuning_of(options, loaded: Checkpoint, led: Phase | None = None) -> tuple[FineTuning, Checkpoint]:
    """Returns the recipe of the system of a checkpoint, or by default that of the flags; and the checkpoint as the recipe changes it.

    Args:
        led: the phase that it is; None for the fine-tuning that comes last. Groups and losses of a system's recipe are those of the
            task; a language model, or layers of a teacher, are learnt by the recipe of their phase, and beside them nothing.

    Raises:
        UsageError: the flags ask for rates by depth, and the recipe has groups of its own.
    """
    system = systems.of_model(loaded.system, loaded.model, options.init_checkpoint)
    found = systems.finetuning(system, options.task, loaded.config, options)
    if led is not None and led.learns != TASK:
        found = led.recipe or FineTuning(network=found.network)
    elif options.language_model_epochs and LANGUAGE_MODEL not in (phase.name for phase in found.phases):
        found = dataclasses.replace(found, phases=(language_model_phase(options.language_model_epochs), *found.phases))
    if found.groups and options.layerwise_lr_decay != 1.0:
        raise UsageError(
            f"--layerwise_lr_decay={options.layerwise_lr_decay:g}: {systems.name_of(system)} is fine-tuned in groups of weights with "
            f"rates of their own: {', '.join(group.name for group in found.groups)}. Leave the flag out."
        )
    if options.freeze_backbone:  # the head of a language model would learn for nothing
        found = dataclasses.replace(found, loss_weights=dict(found.loss_weights) | {AUXILIARY_LM: 0.0})
    return found, dataclasses.replace(loaded, config=dataclasses.replace(loaded.config, **found.network))


def objective_of(task: Objective, finetuning: FineTuning, loaded: Checkpoint, learns: str = TASK) -> Objective:
    """Returns a task; or beside it the pretrained language model, where the recipe gives its loss a weight; or that alone."""
    if learns != LANGUAGE_MODEL and not finetuning.models_language:
        return task
    language_model = systems.of_model(loaded.system, loaded.model, "").WRITING.objective(loaded.config)
    if learns == LANGUAGE_MODEL:
        return LanguageModelOfTexts(task, language_model)
    return WithLanguageModel(task, language_model, finetuning.auxiliary_lm_mean == TOKENS)


def begin_language_model(objective: Objective, loaded: Checkpoint, source: str) -> None:
    """Gives the head of a language model, beside a task or alone, once it is built, the weights that the checkpoint has for it."""
    if isinstance(objective, WithLanguageModel | LanguageModelOfTexts) and (head := objective.language_model).weights:
        assign(head.prefix, head, loaded.values, source)


def check_head(options, labels: list[str]) -> None:
    """Raises a UsageError where --init_checkpoint is no run of this task with these labels, whose head could go on."""
    found = read_task(options.init_checkpoint)
    theirs, ours = (found.task, found.labels), (options.task, labels)
    if theirs != ours:
        described = [f"--task={task}, labels {', '.join(names[:8]) or 'none'}" for task, names in (theirs, ours)]
        raise UsageError(
            f"--init_head: the head of --init_checkpoint={options.init_checkpoint} is of {described[0]}; here it is {described[1]}. "
            "Leave the flag out to begin with a new head."
        )


def begin_head(task: Task, loaded: Checkpoint, source: str) -> None:
    """Gives a built task the weights that the checkpoint has for it.

    Raises:
        UsageError: they have learnt to read another state.
    """
    settings = getattr(task, "settings", {})
    pairs = {"pooling": (loaded.pooling or PUBLISHED, getattr(task, "pooling", None) or PUBLISHED)}
    pairs |= {name: (loaded.settings.get(name), settings.get(name)) for name in READ_BY_HEADS}
    for name, (theirs, ours) in pairs.items():
        if json.dumps(theirs) != json.dumps(ours):  # where tuples are lists
            raise UsageError(
                f"--init_head: the head of --init_checkpoint={source} reads a state by {name}={theirs}, and here it would be "
                f"{ours}. Give the same, or leave the flag out to begin with a new head."
            )
    assign(task.prefix, task, loaded.values, source)


def open_tokenizer_of(options, loaded) -> Tokenizer:
    """Returns the tokenizer of a checkpoint, or of --vocab_file, which must have the pieces of the checkpoint's own, if that
    has one."""
    found, path = loaded.tokenizer, options.vocab_file
    if path:
        lower_case = found.do_lower_case if found and options.do_lower_case is None else options.do_lower_case
        tokenizer = open_tokenizer(path, found.kind if found else "auto", lower_case)
        own = found.open(options.do_lower_case) if found else None
        if own and loaded.config.holds(len(own.vocabulary)):  # else it is damaged, and this one is the cure
            check_same_pieces(own, tokenizer, path, options.init_checkpoint)
    elif found:
        tokenizer = found.open(options.do_lower_case)
    else:
        raise UsageError(f"--init_checkpoint={options.init_checkpoint}: has no vocabulary; name one with --vocab_file.")
    if not loaded.config.holds(len(tokenizer.vocabulary)):
        raise CheckpointError(
            f"--init_checkpoint={options.init_checkpoint}: the network has {loaded.config.values().get('vocabulary_size', 0)} pieces, "
            f"{f'--vocab_file={path}' if path else 'its vocabulary'} {len(tokenizer.vocabulary)}. They do not belong together: "
            + ("name the one" if path else "put the checkpoint's own back, or name it with --vocab_file: that")
            + " with which the network was trained."
        )
    return tokenizer


def check_same_pieces(own: Tokenizer, given: Tokenizer, path: str, checkpoint: str) -> None:
    """Raises a UsageError where --vocab_file holds other pieces than the vocabulary that a checkpoint brings along."""
    ours, theirs = own.vocabulary.tokens, given.vocabulary.tokens
    place = first_difference(ours, theirs)
    if place is None:
        return
    difference = (
        f"has {len(theirs):,} pieces, and that of the checkpoint {len(ours):,}"
        if place == min(len(ours), len(theirs))
        else f"has {theirs[place]!r} at the place {place}, where that of the checkpoint has {ours[place]!r}"
    )
    raise UsageError(
        f"--vocab_file={path}: {difference}. The one that --init_checkpoint={checkpoint} brings along is taken without the flag."
    )
