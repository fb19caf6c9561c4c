"""Some of the layers of a checkpoint: how DistilBERT begins with every second layer of its teacher (Sanh et al., 2019, section 2)."""

import dataclasses
import re

from data_pipelines.errors import UsageError
from xmodels.models.checkpoint import Checkpoint

BLOCK = re.compile(r"^backbone\.blocks\.(\d+)\.")


def keep_layers(loaded: Checkpoint, given: str, source: str) -> Checkpoint:
    """Returns the checkpoint with these of its layers alone, in this order; all else stays as it is.

    Args:
        given: the value of --init_layers, numbers from 1 such as `1,3,5`.
        source: names the checkpoint in errors.

    Raises:
        UsageError: a layer is not there, or the network has no stack of layers with weights of their own.
    """
    flag, config = f"--init_layers={given}", loaded.config
    count = getattr(config, "num_layers", 0)
    found = {int(place[1]) for name in loaded.values if (place := BLOCK.match(name))}
    if not count or found != set(range(count)):
        raise UsageError(
            f"{flag}: the network of --init_checkpoint={source}, of the kind {loaded.model}, is no stack of layers with weights of "
            "their own, as BERT, RoBERTa or GPT-2 are. Leave the flag out."
        )
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= count for part in parts):
        raise UsageError(
            f"{flag}: --init_checkpoint={source} has the layers 1 to {count}; expected some of them, such as 1,{count}."
        )
    kept = [int(part) - 1 for part in parts]
    values = {name: value for name, value in loaded.values.items() if not BLOCK.match(name)}
    for place, old in enumerate(kept):
        before, after = f"backbone.blocks.{old}.", f"backbone.blocks.{place}."
        own = {name: value for name, value in loaded.values.items() if name.startswith(before)}
        values |= {name.replace(before, after, 1): value for name, value in own.items()}
    return dataclasses.replace(loaded, config=dataclasses.replace(config, num_layers=len(kept)), values=values)
