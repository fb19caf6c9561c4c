"""The body of a request, read strictly: JSON as TensorFlow Serving takes it, by rows ("instances") or by columns ("inputs").

Errors have the codes of TensorFlow Serving. Where programs may look for its words, they begin with these; what follows says more.
"""

import base64
import binascii
import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Signature, Tensor

DEFAULT = "serving_default"
KEYS = ("signature_name", "instances", "inputs")
KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}


@dataclasses.dataclass(frozen=True)
class Question:
    """What a request asks.

    Attributes:
        values: of each input: a list with a value for each row, or the value that all rows share.
        num_rows: how many rows there are; 1 where the signature has none.
        by_rows: whether the answer goes by rows.
    """

    signature: Signature
    values: Mapping[str, Any]
    num_rows: int
    by_rows: bool

    @functools.cached_property
    def group(self) -> tuple:
        """Equal for questions that may be answered together: the signature, what rows share, and how wide lists are."""
        shared = [value if not wanted.is_column else _width(value, wanted) for value, wanted in self._inputs()]
        return self.signature.name, *map(str, shared)

    def part(self, start: int, stop: int) -> dict[str, Any]:
        """Returns the values of some of the rows."""
        return {wanted.name: value[start:stop] if wanted.is_column else value for value, wanted in self._inputs()}

    def _inputs(self):
        return [(self.values[name], wanted) for name, wanted in self.signature.inputs.items()]


def read_question(body: bytes, signatures: Mapping[str, Signature], limits: Limits) -> Question:
    """Returns the question in the body of a request.

    Raises:
        RequestError: it says what is wrong and where.
    """
    request = parse_object(body, KEYS, '{"instances": [...]} or {"inputs": ...}')
    signature = find_signature(request.get("signature_name"), signatures)
    if "instances" not in request and "inputs" not in request:
        raise RequestError(
            "Missing 'inputs' or 'instances' key. Expected \"instances\" (rows) or \"inputs\" (columns)."
        )
    if "instances" in request and "inputs" in request:
        raise RequestError("Expecting only one of 'inputs' or 'instances' keys to exist.")
    if "instances" in request:
        return Question(*_from_rows(request["instances"], signature, limits), by_rows=True)
    return from_columns(request["inputs"], signature, limits)


def parse_object(body: bytes, keys: tuple[str, ...], expected: str) -> dict[str, Any]:
    """Returns the JSON of a body, an object with some of the keys.

    Raises:
        RequestError: it is none.
    """
    request = _parse_body(body)
    if not isinstance(request, dict):
        raise RequestError(f"Is not object: the body is {_kind(request)}. Expected {expected}.")
    if unknown := sorted(set(request) - set(keys)):
        raise RequestError(f"Unknown key {unknown[0]!r:.60}. Expected: {', '.join(keys)}.")
    return request


def find_signature(name: Any, signatures: Mapping[str, Signature]) -> Signature:
    """Returns the signature of a name; without one, the usual.

    Raises:
        RequestError: there is none.
    """
    name = name or DEFAULT
    if not isinstance(name, str):
        raise RequestError(f"'signature_name' key must be a string value: it is {_kind(name)}.")
    if name not in signatures:
        known = ", ".join(signatures)
        raise RequestError(
            f'Serving signature name: "{name:.60}" not found in signature def. Expected one of: {known}.'
        )
    return signatures[name]


def _parse_body(body: bytes) -> Any:
    if not body:
        raise RequestError("JSON Parse error: The document is empty.")
    try:
        return strict_json.loads(body.decode("utf-8"), unique=True)
    except UnicodeDecodeError as error:
        raise RequestError(
            f"JSON Parse error: not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start}."
        ) from None
    except json.JSONDecodeError as error:
        message = error.msg[0].lower() + error.msg[1:]
        raise RequestError(
            f"JSON Parse error: {message} at line {error.lineno}, column {error.colno} (offset {error.pos})."
        ) from None


def _from_rows(rows: Any, signature: Signature, limits: Limits) -> tuple[Signature, dict[str, list], int]:
    if not isinstance(rows, list):
        raise RequestError(f'"instances" is {_kind(rows)}. Expected a list with a row for each answer.')
    if not rows:
        raise RequestError("No values in 'instances' array. Expected a row for each answer.")
    names = list(signature.inputs)
    if shared := [name for name, each in signature.inputs.items() if not each.is_column]:
        raise RequestError(
            f"Input `{shared[0]}` of `{signature.name}` is one for all rows, so it cannot stand in a row. Send columns: "
            f'{{"inputs": {{{", ".join(f"{json.dumps(name)}: ..." for name in names)}}}}}.'
        )
    columns = {name: [] for name in names}
    for index, row in enumerate(rows):
        if not _is_named(row) and len(names) == 1:
            row = {names[0]: row}
        _check_names(row, names, f"instances[{index}]")
        for name in names:
            columns[name].append(
                checked_value(row[name], signature.inputs[name], 1, f"instances[{index}].{name}", limits)
            )
    for name, column in columns.items():
        check_widths(column, signature.inputs[name], "instances", name)
    return signature, columns, len(rows)


def from_columns(columns: Any, signature: Signature, limits: Limits) -> Question:
    """Returns the question of a value for each input, in lists for each axis.

    Raises:
        RequestError: they are not what the signature takes.
    """
    names = list(signature.inputs)
    if not _is_named(columns) and len(names) == 1:
        columns = {names[0]: columns}
    _check_names(columns, names, "inputs")
    values, lengths = {}, {}
    for name, wanted in signature.inputs.items():
        values[name] = checked_value(columns[name], wanted, 0, f"inputs.{name}", limits)
        if wanted.is_column:
            lengths[name] = len(values[name])
            check_widths(values[name], wanted, "inputs", name)
    if len(set(lengths.values())) > 1:
        raise RequestError(
            f"Columns have different lengths: {', '.join(f'{name} {length}' for name, length in lengths.items())}."
        )
    return Question(signature, values, next(iter(lengths.values()), 1), by_rows=False)


def _check_names(found: Any, names: list[str], place: str) -> None:
    expected = f"Expected an object with {', '.join(names)}."
    if not isinstance(found, dict):
        raise RequestError(f"{place} is {_kind(found)}. {expected}")
    if missing := [name for name in names if name not in found]:
        raise RequestError(f"Missing named input: {missing[0]} in {place}. {expected}")
    if unknown := [name for name in found if name not in names]:
        raise RequestError(f"{place} does not have named input: {unknown[0]!r:.60}. {expected}")


def checked_value(found: Any, wanted: Tensor, axis: int, place: str, limits: Limits) -> Any:
    """Returns the value of axes `axis` and beyond of an input. Raises a RequestError where it is not what the input takes."""
    if axis < len(wanted.shape):
        size = wanted.shape[axis]
        if not isinstance(found, list) or size not in (None, len(found)):
            kind = f"a list of {len(found)}" if isinstance(found, list) else _kind(found)
            raise RequestError(f"{place} is {kind}. Expected a list{f' of {size}' if size else ''}.")
        return [checked_value(each, wanted, axis + 1, f"{place}[{index}]", limits) for index, each in enumerate(found)]
    if wanted.is_text:
        return _text(found, place, limits)
    kind = bool if wanted.dtype == "bool" else float if "float" in wanted.dtype else int
    right = isinstance(found, int | float) and not isinstance(found, bool) if kind is float else type(found) is kind
    if not right or (kind is float and not _is_finite(found)):
        names = {bool: "true or false", float: "a number", int: "a whole number"}
        raise RequestError(
            f"{place} is {_kind(found) if not isinstance(found, float) else found}. Expected {names[kind]}."
        )
    if kind is int and not -(2**31) <= found < 2**31:
        raise RequestError(f"{place} is {str(found):.30}. Expected a number of 32 bits.")
    return found


def _text(found: Any, place: str, limits: Limits) -> str:
    if isinstance(found, dict) and set(found) == {"b64"} and isinstance(found["b64"], str):
        try:
            found = base64.b64decode(found["b64"], validate=True).decode("utf-8")
        except binascii.Error:
            raise RequestError(f"{place}.b64 is not Base64.") from None
        except UnicodeDecodeError as error:
            raise RequestError(f"{place}.b64 is not UTF-8 at byte {error.start}.") from None
    if not isinstance(found, str):
        raise RequestError(f'{place} is {_kind(found)}. Expected a text, or {{"b64": "..."}}.')
    if len(found) > limits.max_text_length:
        raise RequestError(
            f"{place} has {len(found):,} characters. At most {limits.max_text_length:,} are read (--max_text_length)."
        )
    return found


def _is_named(found: Any) -> bool:
    return isinstance(found, dict) and set(found) != {"b64"}


def _is_finite(found: float) -> bool:
    try:
        return math.isfinite(found) and abs(found) < 3e38  # float32
    except OverflowError:
        return False


def check_widths(column: list, wanted: Tensor, place: str, name: str) -> None:
    """Raises a RequestError where the lists of a column have different lengths."""
    if len(wanted.shape) > 1 and len({len(row) for row in column}) > 1:
        raise RequestError(
            f"{place}: the lists of `{name}` have different lengths ({', '.join(str(len(row)) for row in column[:8])}). Fill "
            "the shorter ones up with empty texts."
        )


def _width(column: list, wanted: Tensor) -> int:
    return len(column[0]) if len(wanted.shape) > 1 and column else 0


def _kind(found: Any) -> str:
    return "null" if found is None else KINDS[type(found)]
