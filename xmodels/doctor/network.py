"""The network that is planned: its sizes, the checkpoint it starts from, and the folder of its run."""

import dataclasses
import functools
import math

from data_pipelines.errors import UsageError
from data_pipelines.text.letter_case import case_warning
from xmodels.doctor.case import FINETUNE, PRETRAIN, Case
from xmodels.training.watching.progress import print_status

FEW = 13  # pieces of a vocabulary: a number that no other axis has


def system(case: Case) -> str | None:
    """Returns the system's network for these records: configuration, positions, batch."""
    from xmodels import systems
    from xmodels.jobs.pretrain import network
    from xmodels.jobs.pretrain.records import check_features

    flags = case.flags
    if case.job != PRETRAIN or not flags.system:
        return None
    module = systems.load(flags.system)
    network.check_size(flags, module)
    network.check_mixer(flags, module)
    if case.records is None:
        return f"{flags.system} is known"
    vocabulary = case.tokenizer.vocabulary
    config = network.make_config(flags, module, vocabulary)
    case.recipe = network.make_recipe(flags, module, vocabulary, case.records, config, case.num_replicas)
    network.check_sizes(flags, case.recipe, case.num_replicas)
    if not case.records.static:
        check_features(flags, case.source, case.recipe.objective(), case.recipe.packings)
    backbone = case.recipe.backbone()
    network.warn_of_order(backbone.config, case.source)
    network.warn_of_clamp(backbone.config)
    network.check_positions(backbone.config, case.records.sequence_length, flags.data_dir or flags.input_file)
    case.num_parameters = num_parameters(type(backbone), backbone.config)
    case.config = backbone.config
    return f"{flags.system}, about {case.num_parameters / 1e6:.1f} million weights, {_positions(case.config)}"


def _positions(config) -> str:
    return f"{config.longest} positions" if config.longest else "rows of any length"


def num_parameters(model: type, config) -> int:
    """Returns the weights of network and heads.

    Told from two networks with hardly any layers and pieces, so that a large one is never built: every further layer and
    every further piece add the same number. The heads are taken for those of BERT.
    """
    if getattr(config, "cutoffs", ()):  # pieces of several widths
        plain = dataclasses.replace(config, cutoffs=())
        return num_parameters(model, plain) + config.table_weights - plain.table_weights
    if getattr(config, "buckets", 0):  # rows of words and buckets in one table, which grows with the words only
        plain = dataclasses.replace(config, buckets=0, kept_buckets=0, longest_ngram=0)
        rows = config.kept_buckets or config.buckets
        return num_parameters(model, plain) + rows * config.hidden_dim + config.kept_buckets
    layers, few = config.values().get("num_layers"), dataclasses.replace(config, vocabulary_size=FEW)
    first = min(layers or 1, config.fewest_regular_layers)
    one, two = (_shapes(model, dataclasses.replace(few, num_layers=n) if layers else few) for n in (first, first + 1))
    least = sum(map(math.prod, one))
    layer = sum(map(math.prod, two)) - least
    piece = sum(math.prod(shape) // FEW for shape in one if FEW in shape)
    heads = config.hidden_dim * (config.hidden_dim + 5) + config.vocabulary_size
    return least + ((layers or 1) - first) * layer + (config.vocabulary_size - FEW) * piece + heads


@functools.lru_cache(8)
def _shapes(model: type, config) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in model(config).initialize().weights]


def checkpoint(case: Case) -> str | None:
    """Returns the checkpoint to start from, against network, vocabulary and lengths."""
    from xmodels.conversion import convert
    from xmodels.jobs.finetune.plan import check_options
    from xmodels.jobs.finetune.rates import defaults_of
    from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
    from xmodels.jobs.pretrain.start import fit_checkpoint

    flags = case.flags
    if not flags.init_checkpoint:
        if case.job == FINETUNE:
            raise UsageError("--init_checkpoint is missing: name the run, model folder or hf:FOLDER to fine-tune.")
        return None
    if case.job == FINETUNE:
        reader = reader_of(flags)
        loaded, case.tokenizer = load_checkpoint_and_tokenizer(flags, reader)
        case.loaded = loaded
        vars(flags).update(defaults_of(reader))
        check_options(flags, case.num_replicas, loaded)
        case.config = loaded.config
        case.num_parameters = sum(value.size for value in loaded.values.values())
        if warning := case_warning(case.tokenizer, flags.vocab_file or flags.init_checkpoint):
            print_status(warning)
        return _describe_network(loaded)
    case.loaded = loaded = convert.load(flags.init_checkpoint)
    if case.config is not None:
        tokens = case.tokenizer.vocabulary.tokens
        loaded = fit_checkpoint(loaded, flags, model_of(case), case.config, tokens)
    return _describe_network(loaded)


def _describe_network(loaded) -> str:
    layers = loaded.config.values().get("num_layers")
    width = f"{layers} layers of {loaded.config.hidden_dim}" if layers else f"width {loaded.config.hidden_dim}"
    return f"{loaded.model}, {width}{_heads(loaded)}"


def _heads(loaded) -> str:
    return f", heads {', '.join(sorted(loaded.heads))}" if loaded.heads else ""


def model_of(case: Case) -> type:
    """Returns the class of the system's network."""
    from xmodels import systems

    return systems.load(case.flags.system).MODEL


def run(case: Case) -> str | None:
    """Returns whether the run folder is free, or holds this run."""
    from xmodels.jobs.finetune import run as finetune
    from xmodels.jobs.pretrain import plan as pretrain

    if not case.flags.model_dir or case.config is None:
        return None
    if case.job == PRETRAIN:
        options = _options(pretrain.Options, case)
        claim = pretrain.identity_of(
            options, model_of(case), case.config, case.source, case.recipe, case.records
        ).existing()
    elif case.labels is not None:
        options = _options(finetune.Options, case)
        claim = finetune.existing_run(options, case.loaded, case.labels, case.num_rows, case.tokenizer)
    else:
        return None
    if claim.results is not None:
        return f"{case.flags.model_dir} is finished"
    return f"goes on from {claim.state}" if claim.state else "free for a new run"


def _options(kind: type, case: Case):
    return kind(**{field.name: getattr(case.flags, field.name) for field in dataclasses.fields(kind)})
