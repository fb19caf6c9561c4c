"""A network as ONNX, by tf2onnx; float16 and int8 by the tools of onnxruntime."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from data_pipelines.errors import UsageError
from xmodels.export.formats import FLOAT16, INT8

OPSET = 18


def write(network: Callable, specs: Mapping[str, tf.TensorSpec], path: str, precision: str) -> None:
    """Writes the graph of `network`, from {name: feature} to {name: number}, as a file of ONNX.

    The batch and the length are open. With int8 the matrices of weights and the tables are stored in 8 bits, and what is multiplied
    with them is quantized as it comes (dynamic quantization). With float16 everything inside is; inputs and outputs are not.

    Raises:
        UsageError: ONNX lacks an operation of the network.
    """
    import onnx

    with _quiet_logs():
        model = convert(network, specs)
        if precision == FLOAT16:
            from onnxruntime.transformers.float16 import convert_float_to_float16

            model = convert_float_to_float16(model, keep_io_types=True)
        if precision == INT8:
            model = quantize(model)
        onnx.save_model(model, path)


def convert(network: Callable, specs: Mapping[str, tf.TensorSpec]):
    """Returns a model in float32."""
    import tf2onnx

    graph = tf.function(
        lambda *values: network(dict(zip(specs, values, strict=True))), input_signature=list(specs.values()), autograph=False
    )  # fmt: skip
    try:
        model, _ = tf2onnx.convert.from_function(graph, input_signature=list(specs.values()), opset=OPSET)
    except Exception as error:  # its handlers raise many kinds
        message = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"--format=onnx: tf2onnx cannot convert this network ({message:.200}). Take --format=saved_model."
        ) from None
    if unknown := sorted(unknown_ops(model.graph)):
        raise UsageError(
            f"--format=onnx: ONNX lacks operations of this network: {', '.join(unknown)}. Take --format=saved_model."
        )
    return model


def unknown_ops(graph) -> set[str]:
    """Returns the ops of a graph and of the graphs in it that ONNX does not know: tf2onnx leaves those of TensorFlow."""
    import onnx

    found = set()
    for node in graph.node:
        if not onnx.defs.has(node.op_type, node.domain):
            found.add(node.op_type)
        for attribute in node.attribute:
            inner = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
            found |= {name for each in inner for name in unknown_ops(each)}
    return found


def quantize(model):
    """Returns a model with weights of 8 bits, a scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        given, made = os.path.join(folder, "given.onnx"), os.path.join(folder, "made.onnx")
        onnx.save_model(model, given)
        quantize_dynamic(given, made, weight_type=QuantType.QInt8, per_channel=True)
        return onnx.load_model(made)


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keeps the warnings of the tools in the body from the standard error: what matters is checked."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
