"""Language models as which an encoder and a decoder begin: `--init_encoder` and `--init_decoder` (Ramachandran et al., 2017)."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from data_pipelines.errors import CheckpointError, UsageError
from xmodels import systems
from xmodels.conversion import convert
from xmodels.jobs.pretrain.vocabularies import check_vocabulary
from xmodels.models.backbone import named_weights
from xmodels.models.config import TokenConfig
from xmodels.models.folder import name_of
from xmodels.models.parts import DECODER, ENCODER, PARTS, Part
from xmodels.training.watching.progress import print_status


@dataclasses.dataclass(frozen=True)
class InitialParts:
    """What an encoder and a decoder take over.

    Attributes:
        values: {our flat name: array}.
        sources: {"encoder" or "decoder": the flag that names the language model}.
    """

    values: Mapping[str, np.ndarray]
    sources: Mapping[str, str]

    def assign(self, backbone, find_heads) -> None:
        """Gives network and heads these weights, and says so.

        Args:
            find_heads: {name: array} -> gives heads of the objective that have such weights theirs.
        """
        weights = {f"backbone.{name}": variable for name, variable in named_weights(backbone).items()}
        for name in self.values.keys() & weights.keys():
            weights[name].assign(self.values[name])
        find_heads({name: value for name, value in self.values.items() if name not in weights})
        count = sum(int(np.size(self.values[name])) for name in self.values.keys() & weights.keys())
        print_status(f"Initial weights from {' and '.join(self.sources.values())}: {count:,} numbers of the network.")


def flag_of(part: str) -> str:
    """Returns the name of the flag of a part."""
    return f"init_{part}"


def named_parts(options) -> dict[str, str]:
    """Returns {part: the checkpoint that its flag names}."""
    return {part: given for part in PARTS if (given := getattr(options, flag_of(part)))}


def check_flags(options, system) -> None:
    """Raises a UsageError where the flags contradict others, or the network of the system has no such parts."""
    given = named_parts(options)
    if not given:
        return
    flag = f"--{flag_of(next(iter(given)))}"
    others = [name for name in ("init_checkpoint", "init_vectors", "extend_positions") if getattr(options, name)]
    if others:
        raise UsageError(f"{flag}: does not go with --{others[0]}. Leave one of them out.")
    if not _begins_as(system.MODEL):
        known = [name for name in systems.names() if _begins_as(systems.load(name).MODEL)]
        raise UsageError(
            f"{flag}: --system={options.system} has no encoder and decoder that begin as language models. Systems that have: "
            f"{', '.join(known)}."
        )


def load_parts(options, backbone, tokens: list[str] | None) -> InitialParts | None:
    """Returns what the flags name, checked against a built network and the vocabulary of the records; None without a flag.

    Raises:
        CheckpointError: a checkpoint holds another network or one of other sizes, or both would give a weight other values.
        UsageError: it has another vocabulary.
    """
    given = named_parts(options)
    if not given:
        return None
    loaded = {named: convert.load(named) for named in set(given.values())}
    model, config, values, sources = type(backbone), backbone.config, {}, {}
    for part, named in given.items():
        source = sources[part] = f"--{flag_of(part)}={named}"
        checkpoint = loaded[named]
        if checkpoint.model not in _begins_as(model):
            raise CheckpointError(
                f"{source}: holds the network {checkpoint.model!r}, but the {part} of {name_of(model)!r} may begin as "
                f"{' or '.join(map(repr, _begins_as(model)))}. Give a checkpoint of such a network."
            )
        check_vocabulary(checkpoint, source, config.vocabulary_size, tokens)
        found = model.adopt_part(part, config, checkpoint.model, checkpoint.config, checkpoint.values, source)
        _check_fit(found, source, config)
        if taken := [
            name for name in found.values.keys() & values.keys() if not np.array_equal(values[name], found.values[name])
        ]:
            raise CheckpointError(
                f"{sources[ENCODER]} and {sources[DECODER]} give {sorted(taken)[0]} different values, which encoder and decoder of "
                f"{name_of(model)!r} share. Give one checkpoint for both, or leave one of the flags out."
            )
        values |= found.values
    _check_shapes(values, backbone, sources)
    return InitialParts(values, sources)


def _begins_as(model: type) -> tuple[str, ...]:
    """Returns the networks as which parts of this one may begin. What a subclass inherits does not count: its parts differ."""
    return vars(model).get("begins_as", ())


def _check_fit(part: Part, source: str, config: TokenConfig) -> None:
    differ = {name: pair for name, pair in part.sizes.items() if pair[0] != pair[1]}
    if differ:
        raise CheckpointError(
            f"{source}: is of another size or kind ({_listed(differ)}). Give the network those of the checkpoint"
            f"{_hint(differ, config)}."
        )
    differ = {name: pair for name, pair in part.settings.items() if pair[0] != pair[1]}
    if differ:
        print_status(
            f"Warning: {source} was trained with other settings ({_listed(differ)}). To keep its own, give them"
            f"{_hint(differ, config)}."
        )


def _listed(differ: Mapping[str, tuple]) -> str:
    return ", ".join(
        f"{name} {_written(there)} there, {_written(here)} here" for name, (there, here) in sorted(differ.items())
    )


def _hint(differ: Mapping[str, tuple], config: TokenConfig) -> str:
    known = [f"{name}={_written(there)}" for name, (there, _) in sorted(differ.items()) if name in config.settings()]
    return f": --set={','.join(known)}" if known else ""


def _written(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_shapes(values: Mapping[str, np.ndarray], backbone, sources: Mapping[str, str]) -> None:
    """Raises a CheckpointError where a weight of the network has another shape, or does not exist; sizes did not tell."""
    weights = {f"backbone.{name}": tuple(variable.shape) for name, variable in named_weights(backbone).items()}
    for name, value in values.items():
        if name.startswith("backbone.") and weights.get(name) != np.shape(value):
            raise CheckpointError(
                f"{' and '.join(sources.values())}: {name} has the shape {np.shape(value)}; the network wants {weights.get(name)}."
            )
