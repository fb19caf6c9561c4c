"""What the folder of a run says of how its network came to be."""

import dataclasses
import os
from types import ModuleType
from typing import Any

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.options import settings
from xmodels import systems
from xmodels.models import folder
from xmodels.models.folder import BACKBONE_FOLDER

RUN_CONFIG = "config.json"  # of the run folder: its flags


def optimizer_of(source: str) -> str | None:
    """Returns the optimizer that trained a run, given its folder or the `backbone` in it; None if that is unknown."""
    return _config_of(source).get("settings", {}).get("optimizer")


def pretrained_by(source: str) -> str | None:
    """Returns the optimizer that pretrained the network of a run, given as in `optimizer_of`; None if that is unknown."""
    return _pretraining_of(source).get("settings", {}).get("optimizer")


def options_of(source: str, system: ModuleType) -> Any:
    """Returns the `Options` of the system with which the network of a run was pretrained, given as in `optimizer_of`, or the usual
    ones where that is unknown; None if the system has none.

    Raises:
        CheckpointError: what the run was told by `--set` is no longer understood.
    """
    kind = systems.options_class(system)
    own = {field.name for field in dataclasses.fields(kind)} if kind else ()
    try:
        given = settings.parse(_pretraining_of(source).get("flags", {}).get("set"))
        return kind and settings.apply(kind(), {name: value for name, value in given.items() if name in own})
    except UsageError as error:
        raise CheckpointError(
            f"{source}: the pretraining of this network was told what is not understood. {error}"
        ) from None


def class_weights_of(source: str) -> str | None:
    """Returns --class_weights of a fine-tuning, given as in `optimizer_of`; None if its loss counts all rows alike, or is unknown."""
    return _config_of(source).get("flags", {}).get("class_weights")


def _pretraining_of(source: str) -> dict:
    """Returns the config.json of the pretraining that a chain of fine-tunings began with; empty if it is not there any more."""
    found, seen = _config_of(source), set()
    while found.get("job") in ("finetune", "multitask"):
        origin = found.get("flags", {}).get("init_checkpoint")
        if not origin or origin in seen:
            return {}
        seen.add(origin)
        found = _config_of(origin)
    return found


def _config_of(source: str) -> dict:
    """Returns the config.json of a run, given its folder or the `backbone` in it; empty if there is none."""
    parent, name = os.path.split(os.path.abspath(source))
    for path in (source, *([parent] if name == BACKBONE_FOLDER else [])):
        if os.path.isdir(os.path.join(path, BACKBONE_FOLDER)) and os.path.isfile(os.path.join(path, RUN_CONFIG)):
            return folder.read_json(os.path.join(path, RUN_CONFIG))
    return {}
