"""A SavedModel in memory: its signatures, what they take and give, and one call of them."""

import dataclasses
import importlib
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from data_pipelines.errors import DataError
from data_pipelines.quiet import quiet_gradients
from xmodels.serving.folder import SAVED_MODEL, ModelFolder
from xmodels.serving.ops import refused_ops

FILLED = "start"  # an output that is -1 where a row only fills up; then rows of any batch can be cut to their own width
OTHERS = ("saved_model.cpb", "saved_model.pbtxt")  # forms of a SavedModel that are not looked at
Values = Mapping[str, Any]  # by the names of inputs: a list of B texts, or an array


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
        dtype: its name in TensorFlow, such as `string`.
        shape: None where any length goes.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    @property
    def is_text(self) -> bool:
        return self.dtype == "string"

    @property
    def is_column(self) -> bool:
        """Whether the first axis is that of rows."""
        return bool(self.shape) and self.shape[0] is None


class Signature:
    """One way to ask the model.

    Args:
        function: of the SavedModel.

    Attributes:
        inputs, outputs: by name.
        joins: whether rows of several requests may be answered together: an answer does not depend on other rows, and can
            be cut out of a batch.
    """

    def __init__(self, name: str, function: Any):
        self.name, self._function = name, function
        self.inputs = _tensors(function.structured_input_signature[1])
        self.outputs = _tensors(function.structured_outputs)
        self.joins = self.can_join()

    def can_join(self) -> bool:
        """Returns `joins`, by the shapes of inputs and outputs."""
        columns = [each for each in self.inputs.values() if each.is_column]
        plain = all(each.is_column or not each.shape for each in self.inputs.values())
        rows = bool(columns) and all(each.is_column for each in self.outputs.values())
        lists = any(len(each.shape) > 1 for each in columns)  # as wide as they are, the answers are
        open_ended = any(None in each.shape[1:] for each in self.outputs.values())
        return plain and rows and (lists or not open_ended or self.fills)

    @property
    def fills(self) -> bool:
        """Whether rows of the answers end in filling, which another batch may have more of."""
        lists = any(len(each.shape) > 1 for each in self.inputs.values())
        return not lists and FILLED in self.outputs and None in self.outputs[FILLED].shape[1:]

    def __call__(self, values: Values) -> dict[str, np.ndarray]:
        """Returns the outputs."""
        tensors = {}
        for name, value in values.items():
            wanted = self.inputs[name]
            value = np.asarray(value, object if wanted.is_text else wanted.dtype)
            if not value.size:  # an empty list has lost its further axes
                value = value.reshape([0 if size is None else size for size in wanted.shape])
            tensors[name] = tf.constant(value, wanted.dtype)
        found = self._function(**tensors)
        return {name: found[name].numpy() for name in self.outputs}


class Model:
    """A SavedModel that `export_model` wrote.

    Args:
        trusted: run any op; otherwise those of `ops.ALLOWED` only.

    Attributes:
        signatures: by name.
        metadata: its signatures, as TensorFlow Serving shows them.

    Raises:
        DataError: the folder is damaged, needs a package that is not there, or does what no export of ours does.
    """

    def __init__(self, folder: ModelFolder, trusted: bool = False):
        self.folder = folder
        saved = _read(folder)
        _check_ops(saved, folder, trusted)
        definitions = saved.meta_graphs[0].signature_def
        self.metadata = {
            name: json_format.MessageToDict(
                definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            for name, definition in sorted(definitions.items())
        }
        try:
            with quiet_gradients():
                self._loaded = tf.saved_model.load(folder.path)
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise DataError(
                f"{folder.path}: not a readable SavedModel ({str(error)[:200]}). Export the run again."
            ) from None
        self.signatures = {name: Signature(name, each) for name, each in sorted(self._loaded.signatures.items())}
        if not self.signatures:
            raise DataError(f"{folder.path}: the SavedModel has no signatures. Write it with `xmodels export_model`.")

    def warm_up(self) -> None:
        """Asks each signature that joins once, so that no client waits for TensorFlow's first call.

        Raises:
            DataError: the signature that is asked most does not answer.
        """
        first = self.signatures.get("serving_default") or next(iter(self.signatures.values()))
        for signature in self.signatures.values():
            if not signature.joins and signature is not first:
                continue
            values = {
                name: np.full([1 if size is None else size for size in each.shape], "" if each.is_text else 0)
                for name, each in signature.inputs.items()
            }
            try:
                signature(values)
            except tf.errors.OpError as error:
                if signature is first:
                    what = f"{signature.name} does not answer ({str(error)[:200]})"
                    raise DataError(f"{self.folder.path}: {what}. Export the run again.") from None


def _tensors(specs: Mapping[str, tf.TensorSpec]) -> dict[str, Tensor]:
    return {name: Tensor(name, each.dtype.name, tuple(each.shape.as_list())) for name, each in sorted(specs.items())}


def _read(folder: ModelFolder) -> saved_model_pb2.SavedModel:
    path = os.path.join(folder.path, SAVED_MODEL)
    for other in OTHERS:  # which TensorFlow would read in its place
        if os.path.lexists(os.path.join(folder.path, other)):
            raise DataError(f"{os.path.join(folder.path, other)}: an export of ours has none. Remove it.")
    try:
        with open(path, "rb") as file:
            saved = saved_model_pb2.SavedModel.FromString(file.read())
    except DecodeError:
        raise DataError(f"{path}: damaged. Export the run again.") from None
    if not saved.meta_graphs:
        raise DataError(f"{path}: holds no graph. Export the run again.")
    if len(saved.meta_graphs) != 1 or not saved.meta_graphs[0].HasField("object_graph_def"):
        raise DataError(
            f"{path}: expected one graph with its objects, as TensorFlow 2 writes it. Export the run again."
        )
    return saved


def _check_ops(saved: saved_model_pb2.SavedModel, folder: ModelFolder, trusted: bool) -> None:
    graph = saved.meta_graphs[0]
    functions = {each.signature.name for each in graph.graph_def.library.function}
    ops = {node.op for node in graph.graph_def.node}
    ops |= {node.op for each in graph.graph_def.library.function for node in each.node_def}
    if (missing := _find_unknown_ops(ops - functions)) and importlib.util.find_spec("tensorflow_text"):
        importlib.import_module("tensorflow_text")  # registers its ops
        missing = _find_unknown_ops(missing)
    if not trusted and (refused := refused_ops(graph) - missing):
        raise DataError(
            f"{folder.path}: the graph runs {_join_names(refused)}, which no export of ours does; such ops can read and write files. "
            "Serve what export_model wrote, or pass --trust_graph if you made the graph and know what it does."
        )
    if missing:
        raise DataError(
            f"{folder.path}: needs ops that TensorFlow lacks: {_join_names(missing)}. Install tensorflow-text, or export "
            "the run with --serving_ops=core."
        )


def _join_names(names: set[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", …" if len(names) > 5 else "")


def _find_unknown_ops(ops: set[str]) -> set[str]:
    return {op for op in ops if op_def_registry.get(op) is None}
