"""Networks with random initial weights: `finetune --init_checkpoint=new:NETWORK/SIZE`, without a checkpoint."""

import dataclasses
import difflib
import importlib
import pkgutil

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary
from xmodels import models, systems
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig
from xmodels.models.folder import model_class, read_json

NEW = "new:"  # prefix of the name of the network
# Modules of `xmodels/models` that are no networks.
SHARED = (
    "adapters",
    "backbone",
    "carried",
    "checkpoint",
    "config",
    "folder",
    "mixing",
    "parts",
    "sentence_encoder",
    "transformer_parts",
)


def network_of(options) -> tuple[str, type[Backbone], str]:
    """Returns the name, the class and the size of the network in --init_checkpoint; by default the first of its sizes.

    Raises:
        UsageError: there is no such network, or it has no such size.
    """
    name, _, size = options.init_checkpoint.removeprefix(NEW).partition("/")
    if name not in (known := names()):
        near = difflib.get_close_matches(name, known, 3) or known
        raise UsageError(
            f"--init_checkpoint={options.init_checkpoint}: unknown network. Did you mean {', '.join(near)}?"
        )
    network = model_class(name)
    sizes = sizes_of(network)
    size = size or next(iter(sizes), "")
    if size not in sizes:
        near = difflib.get_close_matches(size, sizes, 1, 0.3) or list(sizes)
        has = f"has the sizes {', '.join(sizes)}. Try {near[0]}" if sizes else "has no sizes"
        raise UsageError(f"--init_checkpoint={options.init_checkpoint}: {name} {has}.")
    return name, network, size


def names() -> list[str]:
    """Returns the names of the networks in `xmodels/models`, sorted."""
    found = (module.name for module in pkgutil.iter_modules(models.__path__))
    return sorted(name for name in found if name not in SHARED)


def sizes_of(network: type[Backbone]) -> dict[str, dict]:
    """Returns the `SIZES` of the file of a network; {} if it has none."""
    return getattr(importlib.import_module(network.__module__), "SIZES", {})


def new_network(options, vocabulary: Vocabulary, **numbers) -> tuple[str, TokenConfig]:
    """Returns the name and the configuration of the network in --init_checkpoint.

    Args:
        options: the flags of the command.
        vocabulary: of the tokenizer.
        numbers: fields that override those of --model_config_file, which override those of the size.

    Raises:
        CheckpointError, UsageError: as `network_of`; or the fields of --model_config_file are not valid.
    """
    name, network, size = network_of(options)
    given = read_json(options.model_config_file) if options.model_config_file else {}
    system = systems.of_model(None, name, options.init_checkpoint)
    usual = systems.configuration(system, vocabulary, size).to_json() if system else sizes_of(network)[size]
    if any(field.name == "vocabulary_size" for field in dataclasses.fields(network.config_class)):
        numbers["vocabulary_size"] = len(vocabulary)
    values = {**usual, **given, **numbers}
    return name, network.config_class.from_json(values, options.model_config_file or options.init_checkpoint)


def new_tokenizer(options) -> Tokenizer:
    """Returns the tokenizer of --vocab_file. Raises a UsageError if the flag is missing."""
    if not options.vocab_file:
        raise UsageError(
            f"--init_checkpoint={options.init_checkpoint}: a new network needs a vocabulary; name one with --vocab_file."
        )
    return open_tokenizer(options.vocab_file, do_lower_case=options.do_lower_case)
