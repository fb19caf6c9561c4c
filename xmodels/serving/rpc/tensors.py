"""Tensors of gRPC as the lists that a question holds, and outputs as tensors."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Tensor

# The fields of a TensorProto. Outputs are written there, not as `tensor_content`: so does TensorFlow Serving, and clients in some
# languages read these alone.
FIELDS = {
    "string": "string_val", "float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val",
    **dict.fromkeys(("int32", "int16", "int8", "uint8", "uint16"), "int_val"),
}  # fmt: skip


def read_tensor(proto: tensor_pb2.TensorProto, wanted: Tensor | None, place: str, limits: Limits) -> Any:
    """Returns the values in lists, one within the other for each axis.

    Args:
        wanted: the input; None for one that the signature does not know, of which no more is read.

    Raises:
        RequestError: it is of another type, or holds not as many values as its shape says.
    """
    if wanted is None:
        return None
    dtype = _type_of(proto)
    if dtype != wanted.dtype or dtype not in FIELDS:
        raise RequestError(f"{place} is of type {dtype}. Expected {wanted.dtype}.")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise RequestError(f"{place} has no shape.")
    count = math.prod(shape)
    if count > limits.max_body_bytes:  # few bytes may stand for many values
        raise RequestError(
            f"{place} has {count:,} values. At most {limits.max_body_bytes:,} are read (--max_body_bytes).", 413
        )
    if proto.tensor_content and dtype != "string":
        size = np.dtype(dtype).itemsize
        values = np.frombuffer(proto.tensor_content, dtype) if len(proto.tensor_content) == count * size else ()
    else:
        values = getattr(proto, FIELDS[dtype])
        if 0 < len(values) < count:  # the last one stands for all that are missing, as TensorFlow has it
            values = [*values, *[values[-1]] * (count - len(values))]
    if len(values) != count:
        raise RequestError(f"{place} holds {len(values)} values. Expected {count:,}, by its shape.")
    if dtype == "string":
        values = [_decode(value, place) for value in values]
    array = np.empty(count, object if dtype == "string" else dtype)
    array[:] = values
    return array.reshape(shape).tolist()


def write_tensor(value: np.ndarray, proto: tensor_pb2.TensorProto) -> None:
    """Fills in a tensor."""
    dtype = "string" if value.dtype.kind == "O" else value.dtype.name
    proto.dtype = tf.dtypes.as_dtype(dtype).as_datatype_enum
    for size in value.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, FIELDS[dtype]).extend(value.ravel().tolist())


def write_tensors(outputs: Mapping[str, np.ndarray], protos: Any, names: list[str]) -> None:
    """Fills in the tensors of some outputs."""
    for name in names:
        write_tensor(outputs[name], protos[name])


def _type_of(proto: tensor_pb2.TensorProto) -> str:
    try:
        return tf.dtypes.as_dtype(proto.dtype).name
    except TypeError:
        return f"number {proto.dtype}"


def _decode(value: bytes, place: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{place} is not UTF-8 at byte {error.start}.") from None
