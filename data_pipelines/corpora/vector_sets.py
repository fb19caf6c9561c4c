"""Sets of vectors with labels: NumPy arrays, JSON lines and Parquet files, read one set at a time and checked.

`.npy` holds sets of one size, (N, L, D), and has no labels. `.npz` holds `points`, (N, L, D), or (M, D) with all sets one behind the
other and `sizes`, (N,); and `labels`, (N,), where there are any. A line of `.jsonl` and a row of `.parquet` hold a list of vectors
and a label.
"""

import dataclasses
import itertools
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.labelled import read_json_lines
from data_pipelines.corpora.parquet import open_parquet
from data_pipelines.corpora.tables import BadRow
from data_pipelines.corpora.text_files import check_exists
from data_pipelines.errors import DataError, UsageError

POINTS, SIZES, LABEL, LABELS = "points", "sizes", "label", "labels"
ENDINGS = (".npy", ".npz", ".jsonl", ".ndjson", ".parquet")
LARGEST = 1 << 31  # numbers of all sets of a file together, padded to the size of the largest
TOGETHER = 64  # rows of a Parquet file that are read together


@dataclasses.dataclass(frozen=True)
class VectorSet:
    """A set.

    Attributes:
        points: float32 (L, D), L at least 1.
        label: None if the file has none.
        place: file and line, or row, for messages.
    """

    points: np.ndarray
    label: str | None
    place: str


class BadSet(ValueError):
    """A set that cannot be used; the message says why."""


def read_sets(
    path: str, points_column: str | None = None, label_column: str | None = None, with_labels: bool = True,
    bad_rows: list[BadRow] | None = None,
) -> Iterator[VectorSet]:  # fmt: skip
    """Yields the sets of a file, all of vectors of one width.

    Args:
        points_column, label_column: names of fields or columns; by default `points`, and `label`, or `labels` of an .npz.
        with_labels: whether each set must have a label.
        bad_rows: a list that collects sets that cannot be used; None if such a set is an error.

    Raises:
        DataError: the file or a set cannot be used; names the line or row.
        UsageError: the ending of the name is unknown, or pyarrow is missing.
    """
    width, empty = None, True
    for place, value, label in _values(path, points_column, label_column, with_labels):
        empty = False
        try:
            points = as_points(value)
            if width is not None and points.shape[1] != width:
                raise BadSet(f"vectors of {points.shape[1]} numbers, but those before have {width}")
            if with_labels and label is None:
                raise BadSet(f"no label; name its field with --label_column, by default {LABEL!r}")
            text = None if label is None else as_label(label)
        except BadSet as error:
            if bad_rows is None:
                raise DataError(
                    f"{place}: {error}. Correct it, or leave such sets out with --on_bad_row=skip."
                ) from None
            bad_rows.append(BadRow(place, str(error)))
            continue
        width = points.shape[1]
        yield VectorSet(points, text, place)
    if empty:
        raise DataError(f"{path}: holds no sets.")


def as_points(value: Any) -> np.ndarray:
    """Returns a list of vectors as float32 (L, D). Raises a BadSet if it is none."""
    if not isinstance(value, np.ndarray):
        if not isinstance(value, list) or not all(isinstance(vector, list) for vector in value):
            raise BadSet(f"expected a list of vectors, [[1.0, 2.0], …]. Found: {value!r:.60}")
        widths = sorted({len(vector) for vector in value})
        if len(widths) > 1:
            raise BadSet(f"ragged vectors, of {', '.join(map(str, widths[:5]))} numbers; all must have the same")
        for number in itertools.chain.from_iterable(value):
            if type(number) not in (int, float):
                raise BadSet(f"a vector holds {number!r:.40}, which is no number")
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which is refused below
            points = np.asarray(value, np.float32)
    except (OverflowError, ValueError) as error:
        raise BadSet(f"numbers that cannot be read ({error})") from None
    if points.ndim != 2 or not points.size:
        raise BadSet(f"expected one vector at least, of one number at least. Found the shape {list(points.shape)}")
    if not np.isfinite(points).all():
        index, place = np.argwhere(~np.isfinite(points))[0]
        raise BadSet(f"number {place + 1} of vector {index + 1} is {points[index, place]}, expected a finite number")
    return points


def as_label(value: Any) -> str:
    """Returns a label as text. Raises a BadSet if it is neither a text nor a number."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in (str, int, float) or value == "":
        raise BadSet(f"expected a text or a number as label. Found: {value!r:.40}")
    return str(value)


def pad_sets(sets: list[np.ndarray], length: int | None = None) -> dict[str, np.ndarray]:
    """Returns `points` float32 (N, L, D), zeros behind a set, and `padding_mask` bool (N, L).

    Raises:
        DataError: together they would take too much memory.
    """
    length = length or max(map(len, sets), default=1)
    width = sets[0].shape[1] if sets else 1
    if len(sets) * length * width > LARGEST:
        raise DataError(
            f"{len(sets):,} sets of up to {length:,} vectors of {width:,} numbers: more than {LARGEST:,} numbers. Take fewer or "
            "smaller sets."
        )
    points, mask = np.zeros((len(sets), length, width), np.float32), np.zeros((len(sets), length), bool)
    for row, each in enumerate(sets):
        points[row, : len(each)], mask[row, : len(each)] = each, True
    return {"points": points, "padding_mask": mask}


def _values(path, points_column, label_column, with_labels) -> Iterator[tuple[str, Any, Any]]:
    """Yields (place, points, label) as the file has them."""
    kind = kind_of(path)
    if kind in (".jsonl", ".ndjson"):
        yield from _of_json(path, points_column or POINTS, label_column or LABEL)
    elif kind == ".parquet":
        yield from _of_parquet(path, points_column or POINTS, label_column or LABEL, with_labels)
    elif kind in (".npy", ".npz"):
        yield from _of_arrays(path, kind, points_column or POINTS, label_column or LABELS, with_labels)
    else:
        raise UsageError(f"{path}: unknown ending. Sets of vectors are read from {', '.join(ENDINGS)}.")


def _of_json(path: str, points: str, label: str) -> Iterator[tuple[str, Any, Any]]:
    for place, value in read_json_lines(path):
        if points not in value:
            raise DataError(f"{place}: no field {points!r}. Found: {', '.join(map(str, value))[:200]}.")
        yield place, value[points], value.get(label)


def _of_arrays(path: str, kind: str, points: str, label: str, with_labels: bool) -> Iterator[tuple[str, Any, Any]]:
    check_exists(path)
    try:
        found = np.load(path, allow_pickle=False)
        arrays = {POINTS: found} if kind == ".npy" else {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: no arrays of numbers that can be read ({str(error).splitlines()[0]}).") from None
    points = POINTS if kind == ".npy" else points
    if points not in arrays:
        raise DataError(f"{path}: no array {points!r}. Found: {', '.join(arrays) or 'none'}.")
    if with_labels and label not in arrays:
        raise DataError(f"{path}: no array {label!r}, which has a label for each set. Found: {', '.join(arrays)}.")
    values, labels = arrays[points], arrays.get(label)
    if values.dtype.kind not in "fiu":
        raise DataError(f"{path}: {points!r} holds {values.dtype}, expected numbers.")
    if SIZES in arrays:
        values = _parted(path, points, values, arrays[SIZES])
    elif values.ndim != 3:
        raise DataError(
            f"{path}: {points!r} has the shape {list(values.shape)}, expected (sets, vectors, numbers); or (vectors, numbers) of all "
            f"sets beside an array {SIZES!r}."
        )
    if labels is not None and labels.shape != (len(values),):
        raise DataError(f"{path}: {label!r} has the shape {list(labels.shape)}, but there are {len(values):,} sets.")
    for index, each in enumerate(values):
        yield f"{path}, set {index + 1}", each, None if labels is None else labels[index]


def _parted(path: str, name: str, values: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Returns the sets of an array that holds one behind the other."""
    fits = sizes.dtype.kind in "iu" and sizes.ndim == 1 and values.ndim == 2
    if not fits or (len(sizes) and sizes.min() < 0) or sizes.sum() != len(values):
        raise DataError(
            f"{path}: {SIZES!r}, of the shape {list(sizes.shape)}, must be the whole numbers of vectors of each set, {len(values):,} "
            f"in all, and {name!r} of the shape (vectors, numbers). Found: {list(values.shape)}."
        )
    return np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _of_parquet(path: str, points: str, label: str, with_labels: bool) -> Iterator[tuple[str, Any, Any]]:
    check_exists(path)
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        missing = [name for name in (points, *([label] if with_labels else [])) if name not in names]
        if missing:
            raise DataError(f"{path}: no column {missing[0]!r}. Found: {', '.join(names)[:200]}.")
        batches = file.iter_batches(TOGETHER, columns=[name for name in (points, label) if name in names])
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
        for number, row in enumerate(rows, 1):
            yield f"{path}, row {number}", row[points], row.get(label)
