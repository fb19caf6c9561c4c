"""How a pretraining begins: from random weights, from a checkpoint, or from its last state."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion import convert
from xmodels.conversion.positions import extend_positions
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.initial_parts import load_parts
from xmodels.jobs.pretrain.plan import Plan
from xmodels.jobs.pretrain.vocabularies import check_vocabulary
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig
from xmodels.models.folder import assign, name_of
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.states.growth import restore_grown
from xmodels.training.watching.progress import print_status

OF_WEIGHTS = ("share_embeddings",)  # choices on which it depends which weights there are


def prepare_start(plan: Plan) -> Callable[[], State]:
    """Opens the checkpoints to start from; returns what gives the network its weights, and the first state.

    Raises:
        ReportedError: the checkpoint cannot be read, or does not fit the network.
    """
    initial, learner = load_initial(plan), plan.learner
    parts = load_parts(plan.options, learner.backbone, plan.tokenizer.vocabulary.tokens)

    def begin() -> State:
        if initial:
            initialize(initial, plan.options.init_checkpoint, learner.backbone, learner.objective)
        if parts:
            parts.assign(learner.backbone, functools.partial(assign_heads, learner.objective))
        position = checkpoints.Position(lost=tuple(sorted(plan.source.lost)))
        return State(0, plan.options.seed, dict.fromkeys(learner.streams, position))

    return begin


def restore(plan: Plan, path: str) -> State:
    """Puts the learner where a state on disk stands; returns that state, at positions in the records that there are now."""
    state, new = restore_grown(path, plan.learner)
    if new:
        print_status(f"New heads, which begin with random weights: {', '.join(new)}.")
    for name, stream in plan.learner.streams.items():
        state = state.with_position(name, pretraining_records.adapt_position(state.at(name), stream.batches.source))
    return state


def load_initial(plan: Plan) -> Checkpoint | None:
    """Returns the checkpoint to start from, which fits network and vocabulary; None without one."""
    options, backbone = plan.options, plan.learner.backbone
    if not options.init_checkpoint:
        return None
    loaded, tokens = convert.load(options.init_checkpoint), plan.tokenizer.vocabulary.tokens
    return fit_checkpoint(loaded, options, type(backbone), backbone.config, tokens)


def fit_checkpoint(
    loaded: Checkpoint, options, model: type, config: TokenConfig, tokens: list[str] | None
) -> Checkpoint:
    """Returns the checkpoint of --init_checkpoint as one of this network. Arguments and errors are those of `check_start`."""
    fitted = adapt_checkpoint(loaded, model, (config.longest or 0) * options.extend_positions)
    check_start(fitted, options.init_checkpoint, model, config, tokens)
    return fitted


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
    check_vocabulary(loaded, f"--init_checkpoint={source}", config.vocabulary_size, tokens)
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
