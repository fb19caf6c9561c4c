"""What a table says about somebody else's checkpoints, and the two directions of reading it."""

import dataclasses
import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion import tables
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.backbone import ModelConfig


@dataclasses.dataclass(frozen=True)
class Format:
    """The names of one kind of checkpoint.

    Attributes:
        variables: our name -> (their name, their axes); `{layer}` counts the layers, and a name that ends in `[1/3]` is
            the second third of the last axis of a tensor.
        settings: the key in their config.json -> our field.
        activations: their name -> ours. The first that fits is the one we write.
        fixed: keys of their config.json that may hold this value only.
        implied: our fields that their config.json cannot say, with the only value they can have.
        activation_key: the key of the activation in their config.json.
        complete: fills in what their config.json may leave out.
    """

    variables: Mapping[str, tuple[str, str]]
    settings: Mapping[str, str]
    activations: Mapping[str, str]
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    implied: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    activation_key: str = "hidden_act"
    complete: Callable[[dict], dict] = dict


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A checkpoint in memory.

    Attributes:
        model: the file in `xmodels/models`, such as "bert".
        config: the configuration of that network.
        values: our flat names, `backbone.…` and `objective.…`, -> float32 arrays.
        tokenizer: the files of the vocabulary and what is known of them, if there are any.
        heads: the heads that `values` holds: "masked_lm", "next_sentence", "classify".
        labels: the names of the classes, where the checkpoint names them.
        warnings: what the reader should know, such as heads that are absent.
    """

    model: str
    config: ModelConfig
    values: dict[str, np.ndarray]
    tokenizer: TokenizerFiles | None = None
    heads: frozenset[str] = frozenset()
    labels: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()


def models_with_tables() -> list[str]:
    """The networks for which there is a table. The folder is the registry."""
    return sorted(module.name for module in pkgutil.iter_modules(tables.__path__))


def has_table(model: str) -> bool:
    return model in models_with_tables()


def table_of(model: str):
    """The module `xmodels/conversion/tables/<model>.py`."""
    if not has_table(model):
        known = ", ".join(models_with_tables())
        raise CheckpointError(f"No table says how to convert the model {model!r}. Known: {known}.")
    return importlib.import_module(f"{tables.__name__}.{model}")


def table_for(model_type: str):
    """The table of the network that Hugging Face's config.json calls `model_type`, and our name of it."""
    known = models_with_tables()
    for model in known:
        if table_of(model).HUGGING_FACE.fixed["model_type"] == model_type:
            return table_of(model), model
    types = ", ".join(table_of(model).HUGGING_FACE.fixed["model_type"] for model in known)
    raise CheckpointError(f"No table says how to convert the model type {model_type!r}. Known: {types}.")


def in_every_layer(ours: str, theirs: str, rows: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Puts both prefixes before the names of one layer."""
    return {ours + name: (theirs + their_name, axes) for name, (their_name, axes) in rows.items()}


def config_from(form: Format, stored: Mapping[str, Any], config_class: type[ModelConfig], source: str) -> ModelConfig:
    """Our configuration from the contents of their config.json.

    Raises:
        CheckpointError: a value that our network cannot express, a missing key, or a number out of bounds.
    """
    stored = form.complete(dict(stored))
    for key, only in form.fixed.items():
        if stored.get(key) not in (None, only):
            raise CheckpointError(f"{source}: cannot convert `{key}` = {stored[key]!r}; only {only!r} is supported.")
    key = form.activation_key
    activation = stored.get(key, next(iter(form.activations)))
    if not isinstance(activation, str) or activation not in form.activations:
        known = ", ".join(form.activations)
        raise CheckpointError(f"{source}: cannot convert `{key}` = {activation!r}. Known: {known}.")
    values = {ours: stored[theirs] for theirs, ours in form.settings.items() if theirs in stored}
    required = [field.name for field in dataclasses.fields(config_class) if field.default is dataclasses.MISSING]
    missing = [theirs for theirs, ours in form.settings.items() if ours in required and theirs not in stored]
    if missing:
        raise CheckpointError(f"{source}: missing keys: {', '.join(missing)}.")
    values |= {"activation": form.activations[activation], **form.implied}
    config = config_class.from_json(values, source)
    if config.hidden_dim % config.num_heads:
        raise CheckpointError(
            f"{source}: the hidden size must be a multiple of the number of heads. "
            f"Found: {config.hidden_dim} and {config.num_heads}."
        )
    return config


def config_to(form: Format, config: ModelConfig, target: str) -> dict[str, Any]:
    """Their config.json from our configuration; the inverse of `config_from`.

    Raises:
        CheckpointError: the format has no word for one of our values.
    """
    values = config.to_json()
    for name, only in form.implied.items():
        if values[name] != only:
            raise CheckpointError(f"{target}: this format means `{name}` = {only!r} and cannot say {values[name]!r}.")
    activation = next((theirs for theirs, ours in form.activations.items() if ours == values["activation"]), None)
    if activation is None:
        raise CheckpointError(
            f"{target}: this format has no word for the activation {values['activation']!r}; it knows "
            f"{', '.join(form.activations.values())}. Change `activation` in the source's config.json if that is "
            "close enough."
        )
    settings = {theirs: values[ours] for theirs, ours in form.settings.items()}
    written = {**form.fixed, **settings, form.activation_key: activation}
    back = config_from(form, written, type(config), target).to_json()
    lost = sorted(name for name in values if back[name] != values[name])
    if lost:
        raise CheckpointError(f"{target}: this format cannot say `{lost[0]}` = {values[lost[0]]!r}.")
    return written


def values_from(tensors: Mapping[str, np.ndarray], variables, table, config: ModelConfig, source: str):
    """Our values from their tensors. Every tensor must be accounted for.

    Args:
        tensors: their name -> array.
        variables: `Format.variables`.
        table: the module that the names come from.

    Returns:
        Our name -> float32 array, and the names of the groups in `table.GROUPS` that are absent as a whole.

    Raises:
        CheckpointError: lists the tensors that are missing, unexpected or of another shape.
    """
    # A layer has more than one tensor, so a damaged number of layers cannot make this list long.
    rows = _rows(variables, table, min(config.num_layers, len(tensors) + 1))
    lengths = table.axis_lengths(config) | {"C": _classes(tensors, rows)}
    absent = [
        group
        for group, prefix in table.GROUPS.items()
        if not any(theirs in tensors for ours, _, theirs, _ in rows if ours.startswith(prefix))
    ]
    rows = [row for row in rows if not any(row[0].startswith(table.GROUPS[group]) for group in absent)]
    wanted = {theirs: _shape(axes, lengths) for _, _, theirs, axes in rows}
    tensors = _cut(tensors, wanted)
    folder.report_misfits(wanted, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, source)
    values = {}
    for ours, our_axes, theirs, their_axes in rows:
        values[ours] = _rearrange(_float32(tensors[theirs], theirs, source), their_axes, our_axes, lengths)
    return values, absent


def tensors_from(values: Mapping[str, np.ndarray], variables, table, config: ModelConfig) -> dict[str, np.ndarray]:
    """Their tensors from our values; the inverse of `values_from`."""
    rows = [row for row in _rows(variables, table, config.num_layers) if row[0] in values]
    identity = [(ours, axes, ours, axes) for ours, axes, _, _ in rows]
    lengths = table.axis_lengths(config) | {"C": _classes(values, identity)}
    tensors = {
        theirs: _rearrange(values[ours], our_axes, their_axes, lengths) for ours, our_axes, theirs, their_axes in rows
    }
    return _joined(tensors)


PART = re.compile(r"(.+)\[(\d)/(\d)\]")  # "name[1/3]": the second third of a tensor's last axis


def _cut(tensors: Mapping[str, np.ndarray], wanted) -> dict[str, np.ndarray]:
    """The tensors, with those of which parts are wanted cut into these."""
    tensors = dict(tensors)
    for name in wanted:
        part = PART.fullmatch(name)
        if part and part[1] in tensors and tensors[part[1]].ndim and not tensors[part[1]].shape[-1] % int(part[3]):
            tensors[name] = np.split(tensors[part[1]], int(part[3]), axis=-1)[int(part[2])]
    for name in {part[1] for part in map(PART.fullmatch, tensors) if part}:
        del tensors[name]
    return tensors


def _joined(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `_cut`."""
    whole = {name: tensor for name, tensor in tensors.items() if not PART.fullmatch(name)}
    for name in dict.fromkeys(part[1] for part in map(PART.fullmatch, tensors) if part):
        parts = [tensors[key] for key in sorted(tensors) if PART.fullmatch(key) and PART.fullmatch(key)[1] == name]
        whole[name] = np.concatenate(parts, axis=-1)
    return whole


def loaded(tensors, variables, model: str, config: ModelConfig, source: str, labels=None, tokenizer=None) -> Loaded:
    """Joins what a reader has found. A missing pooler gets initial values; other missing groups stay absent."""
    table = table_of(model)
    values, absent = values_from(tensors, variables, table, config, source)
    warnings = [f"{source} holds no weights for {group}." for group in absent if group != "classify"]
    if "pooler" in absent:
        warnings.append("The pooler starts from initial values; train it before you use `pooled_output`.")
        lengths = table.axis_lengths(config)
        values |= {
            name: _initial(name, _shape(axes, lengths), config.initializer_stddev)
            for name, axes in table.AXES.items()
            if name.startswith(table.GROUPS["pooler"])
        }
    if tokenizer is None:
        warnings.append("There is no vocabulary; put a vocab.txt beside the converted checkpoint.")
    elif tokenizer.unsure:
        warnings.append("Nothing says whether the tokenizer lower-cases; set `do_lower_case` in tokenizer_config.json.")
    heads = frozenset(group for group in table.GROUPS if group not in (*absent, "pooler"))
    classes = len(values.get("objective.classify.head.bias", ()))
    if labels is not None and len(labels) != classes:
        if classes:
            warnings.append(f"{source} has {classes} classes but names {len(labels)} labels; the names are left out.")
        labels = None
    return Loaded(model, config, values, tokenizer, heads, labels, tuple(warnings))


def _rows(variables, table, num_layers: int) -> list[tuple[str, str, str, str]]:
    """(our name, our axes, their name, their axes) of every variable."""
    rows = []
    for ours, (theirs, their_axes) in variables.items():
        for layer in range(num_layers if "{layer}" in ours else 1):
            rows.append((ours.format(layer=layer), table.AXES[ours], theirs.format(layer=layer), their_axes))
    return rows


def _classes(tensors, rows) -> int:
    """The length of axis C: the number of classes, as the checkpoint has it."""
    for _, _, theirs, axes in rows:
        if theirs in tensors and "C" in axes:
            return dict(zip(axes.split(), tensors[theirs].shape, strict=False)).get("C", 1)
    return 1


def _shape(axes: str, lengths: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(math.prod(lengths[letter] for letter in axis) for axis in axes.split())


def _rearrange(array, source_axes: str, target_axes: str, lengths: Mapping[str, int]):
    """`HK D` -> `D H K`: splits, transposes and merges axes."""
    source, target = source_axes.replace(" ", ""), target_axes.replace(" ", "")
    array = array.reshape([lengths[letter] for letter in source])
    array = array.transpose([source.index(letter) for letter in target])
    return np.ascontiguousarray(array.reshape(_shape(target_axes, lengths)))


def _float32(array, name: str, source: str):
    if array.dtype.kind not in "fV":  # V: bfloat16, which numpy does not know itself
        raise CheckpointError(f"{source}: {name} holds {array.dtype}, not floating-point numbers.")
    return array.astype("float32")


def _initial(name: str, shape: tuple[int, ...], stddev: float):
    """BERT's initial values, the same ones every time: zero biases, and normal cut at two standard deviations."""
    if name.endswith("bias"):
        return np.zeros(shape, "float32")
    draws = np.random.default_rng(0).standard_normal(2 * math.prod(shape) + 64)
    kept = draws[np.abs(draws) < 2][: math.prod(shape)]
    return (stddev * kept).reshape(shape).astype("float32")
