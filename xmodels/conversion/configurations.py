"""Configurations of others as ours, and back, by what a `Format` says."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.conversion.formats import Format
from xmodels.models.config import TokenConfig


def config_from(form: Format, stored: Mapping[str, Any], config_class: type[TokenConfig], source: str) -> TokenConfig:
    """Returns our configuration from the contents of their config.json.

    Raises:
        CheckpointError: a value that our network cannot express, a missing key, or a number out of bounds.
    """
    stored = form.complete(dict(stored))
    for key, only in form.fixed.items():
        if stored.get(key) not in (None, only):
            raise CheckpointError(f"{source}: cannot convert `{key}` = {stored[key]!r}; only {only!r} is supported.")
    values = {ours: stored[theirs] for theirs, ours in form.settings.items() if theirs in stored}
    required = [field.name for field in dataclasses.fields(config_class) if field.default is dataclasses.MISSING]
    missing = [theirs for theirs, ours in form.settings.items() if ours in required and theirs not in stored]
    if missing:
        raise CheckpointError(f"{source}: missing keys: {', '.join(missing)}.")
    values |= {**_activation_from(form, stored, source), **form.infer_fields(stored)}
    spelled = {ours: theirs for theirs, ours in form.settings.items() if theirs in stored}
    return config_class.from_json(values, source, spelled | {"activation": form.activation_key})


def _activation_from(form: Format, stored: Mapping[str, Any], source: str) -> dict[str, str]:
    if not form.activations:
        return {}
    key = form.activation_key
    activation = stored.get(key, next(iter(form.activations)))
    if not isinstance(activation, str) or activation not in form.activations:
        known = ", ".join(form.activations)
        raise CheckpointError(f"{source}: cannot convert `{key}` = {activation!r}. Known: {known}.")
    return {"activation": form.activations[activation]}


def config_to(form: Format, config: TokenConfig, target: str, source: Format | None = None) -> dict[str, Any]:
    """Returns their config.json from our configuration; the inverse of `config_from`.

    Args:
        source: in which the checkpoint was read, and whose names messages use; None for ours.

    Raises:
        CheckpointError: the format has no word for one of our values.
    """
    values = config.values()
    settings = {theirs: values[ours] for theirs, ours in form.settings.items()}
    written = {
        **form.fixed,
        **settings,
        **form.infer_settings(config),
        **_activation_to(form, values.get("activation"), target, source),
    }
    back = config_from(form, written, type(config), target).values()
    spelled = {ours: theirs for theirs, ours in source.settings.items()} if source else {}
    for name in sorted(set(values) - form.left_out - set(form.unsaid)):
        if back[name] != values[name]:
            raise CheckpointError(
                f"{target}: this format cannot say `{spelled.get(name, name)}` = {values[name]!r}; it means "
                f"{back[name]!r}."
            )
    return written


def _activation_to(form: Format, activation: str | None, target: str, source: Format | None) -> dict[str, str]:
    if not form.activations:
        return {}
    theirs = next((name for name, ours in form.activations.items() if ours == activation), None)
    if theirs is None:
        key, spelled = "activation", {ours: ours for ours in (activation, *form.activations.values())}
        if source and source.activations:
            key = source.activation_key
            spelled = {ours: name for name, ours in reversed(source.activations.items())}
        known = ", ".join(spelled[ours] for ours in dict.fromkeys(form.activations.values()) if ours in spelled)
        other = form.activations.get(activation)
        meaning = f" (its {activation!r} is {spelled.get(other, other)!r})" if other else ""
        raise CheckpointError(
            f"{target}: this format has no word for `{key}` = {spelled.get(activation, activation)!r}{meaning}. In the words of "
            f"the source it knows {known}; change `{key}` there if one of these is close enough."
        )
    return {form.activation_key: theirs}
