"""Tensors of others as values of ours, and back, by the rows of a table."""

import collections
import itertools
import math
import re
import string
from collections.abc import Mapping

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion.formats import Table, Variables, table_of
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig


def values_from(
    tensors: Mapping[str, np.ndarray], variables: Variables, table: Table, config: TokenConfig, source: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns our values from their tensors. Every tensor must be accounted for.

    Args:
        tensors: their name -> array.
        variables: `Format.variables`.

    Returns:
        Our name -> float32 array, and those of `table.groups` that are absent as a whole.

    Raises:
        CheckpointError: lists the tensors that are missing, unexpected or of another shape.
    """
    # A block has more than one tensor, so a damaged number of blocks cannot make this list long.
    listed = rows(variables, table, config, len(tensors) + 1)
    lengths = table.lengths(config) | {"C": _classes(tensors, listed)}
    absent = {
        group: prefix
        for group, prefix in table.groups.items()
        if not any(theirs in tensors for ours, _, theirs, _ in listed if ours.startswith(prefix))
    }
    listed = [row for row in listed if not row[0].startswith(tuple(absent.values()))]
    wanted = {theirs: _shape(axes, lengths) for _, _, theirs, axes in listed}
    tensors = _cut(tensors, wanted)
    folder.report_misfits(wanted, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, source)
    values = {}
    for ours, our_axes, theirs, their_axes in listed:
        values[ours] = _rearrange(_float32(tensors[theirs], theirs, source), their_axes, our_axes, lengths)
    return values, list(absent)


def tensors_from(
    values: Mapping[str, np.ndarray], variables: Variables, table: Table, config: TokenConfig
) -> dict[str, np.ndarray]:
    """Returns their tensors from our values; the inverse of `values_from`."""
    listed = [row for row in rows(variables, table, config) if row[0] in values]
    identity = [(ours, axes, ours, axes) for ours, axes, _, _ in listed]
    lengths = table.lengths(config) | {"C": _classes(values, identity)}
    tensors = {
        theirs: _rearrange(values[ours], our_axes, their_axes, lengths) for ours, our_axes, theirs, their_axes in listed
    }
    return _joined(tensors)


def rows(
    variables: Variables, table: Table, config: TokenConfig, most: int | None = None
) -> list[tuple[str, str, str, str]]:
    """Returns (our name, our axes, their name, their axes) of every variable that a network of this configuration has.

    Args:
        most: where given, no placeholder counts further.
    """
    counts = {name: count if most is None else min(count, most) for name, count in table.counts(config).items()}
    lacks, found = table.lacks(config), []
    for ours, (theirs, their_axes) in variables.items():
        placeholders = [name for _, name, _, _ in string.Formatter().parse(ours) if name]
        for numbers in itertools.product(*(range(counts[name]) for name in placeholders)):
            place = dict(zip(placeholders, numbers, strict=True))
            if ours.startswith(lacks) or ours.format(**place).startswith(lacks):
                continue
            found.append((ours.format(**place), table.axes[ours], theirs.format(**place), their_axes))
    return found


ONE = "I"  # an axis of length 1
PART = re.compile(
    r"(.+)\[(:?)(\d)/(\d)\]"
)  # "name[1/3]": the second third of a tensor's last axis, "name[:1/3]" of its first
ROW = re.compile(r"(.+)\[(\d+)\]")  # "name[1]": the second row of a tensor's first axis


def _cut(tensors: Mapping[str, np.ndarray], wanted) -> dict[str, np.ndarray]:
    """Returns the tensors, with those of which parts are wanted cut into these."""
    tensors = dict(tensors)
    for name in wanted:
        part = PART.fullmatch(name)
        if part and part[1] in tensors and tensors[part[1]].ndim:
            whole, axis, count = tensors[part[1]], _axis(part), int(part[4])
            if not whole.shape[axis] % count:
                tensors[name] = np.split(whole, count, axis=axis)[int(part[3])]
    for name, count in collections.Counter(row[1] for row in map(ROW.fullmatch, wanted) if row).items():
        if name in tensors and tensors[name].shape[:1] == (count,):
            tensors |= {f"{name}[{index}]": row for index, row in enumerate(tensors[name])}
    for name in {part[1] for pattern in (PART, ROW) for part in map(pattern.fullmatch, tensors) if part}:
        del tensors[name]
    return tensors


def _joined(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the inverse of `_cut`."""
    whole = {name: tensor for name, tensor in tensors.items() if not (PART.fullmatch(name) or ROW.fullmatch(name))}
    for name, axis in {part[1]: _axis(part) for part in map(PART.fullmatch, tensors) if part}.items():
        parts = [tensors[key] for key in sorted(tensors) if PART.fullmatch(key) and PART.fullmatch(key)[1] == name]
        whole[name] = np.concatenate(parts, axis=axis)
    for name, count in collections.Counter(row[1] for row in map(ROW.fullmatch, tensors) if row).items():
        whole[name] = np.stack([tensors[f"{name}[{index}]"] for index in range(count)])
    return whole


def _axis(part: re.Match) -> int:
    return 0 if part[2] else -1


def loaded_from(
    tensors: Mapping[str, np.ndarray], variables: Variables, model: str, config: TokenConfig, source: str,
    labels=None, tokenizer=None,
) -> Checkpoint:  # fmt: skip
    """Joins what a reader has found. Missing optional parts get initial values; missing heads stay absent."""
    table = table_of(model)
    values, absent = values_from(tensors, variables, table, config, source)
    warnings = [f"{source} holds no weights for {group}." for group in absent if not table.is_task(group)]
    for part in absent:
        if part in table.optional:
            use = "; train it before you use `pooled_output`" if part == "pooler" else ""
            warnings.append(f"The {part} starts from initial values{use}.")
            values |= _initial_values(table.optional[part], table, config)
    if tokenizer is None:
        warnings.append("There is no vocabulary; put a vocab.txt beside the converted checkpoint.")
    elif tokenizer.unsure:
        warnings.append("Nothing says whether the tokenizer lower-cases; set `do_lower_case` in tokenizer_config.json.")
    heads = frozenset(group for group in table.groups if group not in (*absent, *table.optional))
    classes = num_classes(values, table)
    if labels is not None and len(labels) != classes:
        if classes:
            warnings.append(f"{source} has {classes} classes but names {len(labels)} labels; the names are left out.")
        labels = None
    return Checkpoint(model, config, values, tokenizer, heads, labels, tuple(warnings))


def num_classes(values: Mapping[str, np.ndarray], table: Table) -> int:
    """Returns the number of classes that the head of a task in `values` has; 0 where there is none."""
    return _classes(values, [(name, axes, name, axes) for name, axes in table.axes.items()], 0)


def _classes(tensors: Mapping[str, np.ndarray], listed, default: int = 1) -> int:
    """Returns the length of axis C: the number of classes, as the checkpoint has it."""
    for _, _, theirs, axes in listed:
        if theirs in tensors and "C" in axes:
            return dict(zip(axes.split(), tensors[theirs].shape, strict=False)).get("C", 1)
    return default


def _shape(axes: str, lengths: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(math.prod(1 if letter == ONE else lengths[letter] for letter in axis) for axis in axes.split())


def _rearrange(array, source_axes: str, target_axes: str, lengths: Mapping[str, int]):
    """Returns `HK D` -> `D H K`: splits, transposes and merges axes. Those of length 1, `I`, may stand on one side only."""
    source, target = (axes.replace(" ", "").replace(ONE, "") for axes in (source_axes, target_axes))
    array = array.reshape([lengths[letter] for letter in source])
    array = array.transpose([source.index(letter) for letter in target])
    return np.ascontiguousarray(array.reshape(_shape(target_axes, lengths)))


def _float32(array, name: str, source: str):
    if array.dtype.kind not in "fV":  # V: bfloat16, which numpy does not know itself
        raise CheckpointError(f"{source}: {name} holds {array.dtype}, not floating-point numbers.")
    return array.astype("float32")


def _initial_values(prefix: str, table: Table, config: TokenConfig) -> dict[str, np.ndarray]:
    """BERT's initial values of the weights below a prefix, the same ones every time."""
    lengths = table.lengths(config)
    return {
        name: _initial(name, _shape(axes, lengths), config.initializer_stddev)
        for name, axes in table.axes.items()
        if name.startswith(prefix)
    }


def _initial(name: str, shape: tuple[int, ...], stddev: float):
    """Returns zero biases; else a normal distribution that is cut at two standard deviations."""
    if name.endswith("bias"):
        return np.zeros(shape, "float32")
    draws = np.random.default_rng(0).standard_normal(2 * math.prod(shape) + 64)
    kept = draws[np.abs(draws) < 2][: math.prod(shape)]
    return (stddev * kept).reshape(shape).astype("float32")
