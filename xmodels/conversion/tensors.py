"""Tensors of others as values of ours, and back, by the rows of a table."""

import itertools
import math
import re
import string
from collections.abc import Iterable, Mapping

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion.axes import CLASSES, ONE
from xmodels.conversion.formats import Table, Variables, table_of
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.config import TokenConfig


def to_our_values(
    tensors: Mapping[str, np.ndarray], variables: Variables, table: Table, config: TokenConfig, source: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns our values from their tensors. Every tensor must be accounted for.

    Args:
        tensors: their name -> array.
        variables: `Table.variables`.

    Returns:
        Our name -> float32 array, and those of `table.groups` that are absent as a whole.

    Raises:
        CheckpointError: lists the tensors that are missing, unexpected or of another shape.
    """
    # A block has more than one tensor, so a damaged number of blocks cannot make this list long.
    listed = rows(variables, table, config, len(tensors) + 1)
    lengths = table.lengths(config) | {CLASSES: _classes(tensors, listed)}
    absent = {
        group: prefix
        for group, prefix in table.groups.items()
        if not any(theirs in tensors for ours, _, theirs, _ in listed if ours.startswith(prefix))
    }
    listed = [row for row in listed if not row[0].startswith(tuple(absent.values()))]
    wanted = {theirs: _shape(axes, lengths) for _, _, theirs, axes in listed}
    tensors = cut(tensors, wanted)
    folder.report_misfits(wanted, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, source)
    values = {}
    for ours, our_axes, theirs, their_axes in listed:
        values[ours] = _rearrange(_float32(tensors[theirs], theirs, source), their_axes, our_axes, lengths)
    return values, list(absent)


def to_their_tensors(
    values: Mapping[str, np.ndarray], variables: Variables, table: Table, config: TokenConfig
) -> dict[str, np.ndarray]:
    """Returns their tensors from our values; the inverse of `to_our_values`."""
    listed = [row for row in rows(variables, table, config) if row[0] in values]
    identity = [(ours, axes, ours, axes) for ours, axes, _, _ in listed]
    lengths = table.lengths(config) | {CLASSES: _classes(values, identity)}
    tensors = {
        theirs: _rearrange(values[ours], our_axes, their_axes, lengths) for ours, our_axes, theirs, their_axes in listed
    }
    return join(tensors)


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
            if not table.has_row(config, ours, place):
                continue
            found.append((ours.format(**place), table.axes[ours], theirs.format(**place), their_axes))
    return found


# "name[1/3]": the second of three parts of a tensor along its last axis, "name[:1/3]" along its first; "name[1]": the second row.
PIECE = re.compile(r"(?P<whole>.+)\[(?P<first>:?)(?P<index>\d+)(?P<part>/\d)?\]")


def cut(tensors: Mapping[str, np.ndarray], wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns the tensors, with those of which pieces are wanted cut into these; `join` is the inverse."""
    tensors = dict(tensors)
    for whole, pieces in _pieces(wanted).items():
        axis = _axis(pieces[0])
        length = tensors[whole].shape[axis] if whole in tensors and tensors[whole].ndim else 0
        if length and (length % len(pieces) == 0 if pieces[0]["part"] else length == len(pieces)):
            parts = np.split(tensors.pop(whole), len(pieces), axis)
            tensors |= {p[0]: part if p["part"] else part[0] for p, part in zip(pieces, parts, strict=True)}
    return tensors


def join(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the tensors, with pieces put together."""
    tensors = dict(tensors)
    for whole, pieces in _pieces(tensors).items():
        parts = [tensors.pop(piece[0]) for piece in pieces]
        tensors[whole] = np.concatenate(parts, _axis(pieces[0])) if pieces[0]["part"] else np.stack(parts)
    return tensors


def _pieces(names: Iterable[str]) -> dict[str, list[re.Match]]:
    """Returns the pieces among names by the name of the whole, in their order."""
    found: dict[str, list[re.Match]] = {}
    for piece in filter(None, map(PIECE.fullmatch, names)):
        found.setdefault(piece["whole"], []).append(piece)
    return {whole: sorted(pieces, key=lambda piece: int(piece["index"])) for whole, pieces in found.items()}


def _axis(piece: re.Match) -> int:
    return -1 if piece["part"] and not piece["first"] else 0


def make_checkpoint(
    tensors: Mapping[str, np.ndarray], variables: Variables, model: str, config: TokenConfig, source: str,
    labels=None, tokenizer=None,
) -> Checkpoint:  # fmt: skip
    """Joins what a reader has found. Missing optional parts get initial values; missing heads stay absent."""
    table = table_of(model, config)
    values, absent = to_our_values(tensors, variables, table, config, source)
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
        if theirs in tensors and CLASSES in axes:
            return dict(zip(axes.split(), tensors[theirs].shape, strict=False)).get(CLASSES, 1)
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
