"""A trained network with another mixer and more positions, as RoBERTa becomes a Longformer (Beltagy et al., 2020, section 5)."""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.options import settings
from xmodels.conversion.positions import extend_positions
from xmodels.layers import mixers
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import model_class
from xmodels.models.mixing import MixerConfig, check_mixer


def change_mixer(loaded: Checkpoint, name: str, numbers: str | None = None, length: int | None = None) -> Checkpoint:
    """Returns the checkpoint with another mixer in all blocks.

    Weights that the new mixer lacks are left out. Those that it has besides begin as copies of others, where the mixer says so, or
    with random values; `warnings` says which.

    Args:
        loaded: of a network whose mixer can be chosen.
        name: of the mixer.
        numbers: of the mixer, as `--set` takes them: `mixer.window=128,mixer.num_global=16`.
        length: positions of the new network; None for those of the checkpoint. Further ones are copies of the first.

    Raises:
        UsageError: the network has no choice of mixers, the mixer is unknown or cannot do what the network asks of it, a number is
            not one of it, or the network has more positions than `length`.
    """
    model = model_class(loaded.model)
    check(loaded, model, name, length)
    if length:
        loaded = extend_positions(loaded, length)
    config = loaded.config.with_values({"mixer": name}, "--to_mixer")
    given = settings.parse(numbers)
    settings.check_known(given, {f"--to_mixer={name}": [each for each in config.values() if each.startswith("mixer.")]})
    config = settings.apply_to_network(config, given) if given else config
    weights = {f"backbone.{each}": variable for each, variable in named_weights(model(config).initialize()).items()}
    values, copied, new = dict(loaded.values), [], []
    for each, variable in weights.items():
        if each in values and values[each].shape == tuple(variable.shape):
            continue
        other = original(mixers.find(name), each)
        (copied if other in values else new).append(each)
        values[each] = values.get(other, variable.numpy())
    left = sorted(each for each in values if each.startswith("backbone.") and each not in weights)
    warnings = [*loaded.warnings, f"its mixer {loaded.config.mixer} is changed to {name}"]
    for kind, names in (("begin as copies", copied), ("begin with random values", new), ("are left out", left)):
        if names:
            warnings.append(f"{len(names)} weights {kind}, such as {names[0].removeprefix('backbone.')}")
    values = {each: value for each, value in values.items() if each not in left}
    return dataclasses.replace(loaded, config=config, values=values, warnings=tuple(warnings))


def check(loaded: Checkpoint, model: type, name: str, length: int | None) -> None:
    """Raises a UsageError as `change_mixer` says."""
    if not isinstance(loaded.config, MixerConfig):
        raise UsageError(f"--to_mixer={name}: the attention of the network {loaded.model} cannot be chosen.")
    try:
        check_mixer(name, model)
    except ValueError as error:
        raise UsageError(f"--to_mixer={name}: {error}") from None
    if length and length < loaded.config.longest:
        raise UsageError(
            f"--max_sequence_length={length}: the network has {loaded.config.longest} positions. Give so many or more."
        )


def original(mixer: type[mixers.Mixer], name: str) -> str:
    """Returns the name of the weight of full attention with whose values the weight `name` begins; `name` itself if there is none."""
    *layers, own, weight = name.split(".")
    return ".".join((*layers, mixer.copies.get(own, own), weight))
