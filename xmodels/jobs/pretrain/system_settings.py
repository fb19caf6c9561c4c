"""The numbers of one system that `--set=NAME=VALUE,…` gives: fields of its `Options`, or of the configuration of its network."""

import dataclasses
from typing import Any

from data_pipelines.options import settings
from xmodels import systems
from xmodels.models.config import TokenConfig


def parse_system_options(text: str | None, system) -> Any:
    """Returns the system's `Options`, with what `--set` gives; None where it has none.

    Raises:
        UsageError: a name is neither a field of these nor of the network's configuration, or a value does not suit it.
    """
    given, kind = settings.parse(text), systems.options_class(system)
    own, of_network = _names(kind) if kind else [], list(system.MODEL.config_class.settings())
    settings.check_known(given, {f"--system={systems.name_of(system)}": own, "its network": of_network})
    return kind and settings.apply(kind(), {name: value for name, value in given.items() if name in own})


def apply_network_settings(text: str | None, system, config: TokenConfig) -> TokenConfig:
    """Returns the configuration of the network with the fields that `--set` gives.

    Raises:
        UsageError: a value does not suit the network.
    """
    kind = systems.options_class(system)
    own, of_network = _names(kind) if kind else [], config.settings()
    given = {name: value for name, value in settings.parse(text).items() if name in of_network and name not in own}
    return settings.apply_to_network(config, given) if given else config


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
