"""Outputs of a network cut out of batches, and as JSON."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodels.serving.limits import RequestError
from xmodels.serving.model import FILLED, Signature

EMPTY = {"i": -1, "f": 0.0, "O": b"", "b": False}  # what fills up a row, by the kind of numpy
Outputs = dict[str, np.ndarray]  # by name, (B, ...)
PROBABILITIES, LABELS = "probabilities", "labels"  # the output whose numbers are of labels, and their names


def rows_of(outputs: Outputs, start: int, stop: int) -> Outputs:
    """Returns the outputs of some rows of a batch."""
    return {name: value[start:stop] for name, value in outputs.items()}


def join_outputs(parts: Sequence[Outputs]) -> Outputs:
    """Returns the outputs of parts of a question, one below the other; shorter rows are filled up."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate(_as_wide([part[name] for part in parts])) for name in parts[0]}


def _as_wide(parts: list[np.ndarray]) -> list[np.ndarray]:
    if parts[0].ndim < 2:
        return parts
    widths = [part.shape[1] for part in parts]
    padded = []
    for part, width in zip(parts, widths, strict=True):
        missing = [(0, 0), (0, max(widths) - width), *[(0, 0)] * (part.ndim - 2)]
        padded.append(np.pad(part, missing, constant_values=EMPTY[part.dtype.kind]))
    return padded


def without_filling(outputs: Outputs, signature: Signature) -> Outputs:
    """Returns rows without what fills them all up, so that an answer does not depend on which other rows were in its batch."""
    if not signature.fills:
        return outputs
    open_ended = [name for name, each in signature.outputs.items() if len(each.shape) > 1 and each.shape[1] is None]
    width = outputs[FILLED].shape[1]
    real = np.zeros(width, bool)
    for name in open_ended:
        value = outputs[name]  # (B, W)
        real |= (value != EMPTY[value.dtype.kind]).any(axis=(0, *range(2, value.ndim)))
    used = int(np.max(np.flatnonzero(real), initial=-1)) + 1
    return {name: value[:, :used] if name in open_ended else value for name, value in outputs.items()}


def as_json(outputs: Outputs, num_rows: int, by_rows: bool, labels: list[str] | None = None) -> bytes:
    """Returns the body of an answer: {"predictions": [...]} by rows, {"outputs": ...} by columns.

    A single output stands without its name, as with TensorFlow Serving. Floats have as many digits as tell them apart. The names of
    `probabilities` stand beside the answer, as "labels": TensorFlow Serving has no place for them.

    Args:
        labels: of `probabilities`, in their order; None where they are not known, or stand in the outputs.

    Raises:
        RequestError: the network gave NaN or infinity, which JSON does not have, or an output without rows is asked by rows.
    """
    for name, value in outputs.items():
        check_finite(name, value)
        if by_rows and (not value.ndim or len(value) != num_rows):
            raise RequestError(f'Output `{name}` has no rows. Send columns: {{"inputs": ...}}.')
    columns = {name: _plain(name, value) for name, value in outputs.items()}
    single = next(iter(columns.values())) if len(columns) == 1 else None
    if by_rows:
        answer = {"predictions": single if single is not None else _by_rows(columns)}
    else:
        answer = {"outputs": columns if single is None else single}
    found = outputs.get(PROBABILITIES)
    if labels and LABELS not in outputs and found is not None and found.ndim > 1 and found.shape[-1] == len(labels):
        answer[LABELS] = labels
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()


def check_finite(name: str, value: np.ndarray) -> None:
    """Raises a RequestError (500) where an output holds NaN or infinity."""
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise RequestError(f"The network answers NaN or infinity in `{name}`.", 500)


def _by_rows(columns: Mapping[str, list]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(name: str, value: np.ndarray) -> Any:
    if value.dtype.kind == "O":
        return _texts(name, value.tolist())
    if value.dtype != np.float32:
        return value.tolist()
    if not value.ndim:
        return float(str(value))
    return [shortest(row) for row in value]  # row by row, so that other threads get their turn


def shortest(row: np.ndarray | np.float32) -> Any:
    """Returns float32 as the shortest decimals that stand for them: 0.1, not 0.10000000149011612."""
    return float(str(row)) if not row.ndim else row.astype("U").astype(np.float64).tolist()


def _texts(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(name, each) for each in value]
    if name.endswith("_bytes"):  # as TensorFlow Serving does
        return {"b64": base64.b64encode(value).decode("ascii")}
    return value.decode("utf-8", errors="replace")
