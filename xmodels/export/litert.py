"""A network as LiteRT (TensorFlow Lite), by TensorFlow's own converter."""

import re
import tempfile
from collections.abc import Callable, Mapping

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from data_pipelines.errors import UsageError
from xmodels.export.formats import FLOAT16, FLOAT32
from xmodels.serving.kinds import DEFAULT
from xmodels.serving.networks import quiet_errors

# How the converter names an operation that it cannot write: as one of TensorFlow, or as the place where it stands.
MISSING = re.compile(
    r"'tf\.(\w+)' op is neither a custom op nor a flex op|(?:Flex|Custom) ops?: ([\w, ]+)|fused\[\"(Tensor\w+):"
)


def write(network: Callable, specs: Mapping[str, tf.TensorSpec], path: str, precision: str) -> None:
    """Writes the graph of `network`, from {name: feature} to {name: number}, as a file of LiteRT.

    The batch and the length are open: the interpreter makes room for each new shape. With int8 weights are stored in 8 bits, and what
    is multiplied with them is quantized as it comes (dynamic range); with float16 they are stored in 16 bits.

    Raises:
        UsageError: LiteRT lacks an operation of the network.
    """
    graph = tf.function(lambda *values: network(dict(zip(specs, values, strict=True))), autograph=False)
    concrete = graph.get_concrete_function(*specs.values())
    names = sorted(concrete.structured_outputs)
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    places = [each.name.partition(":")[0] for each in frozen.inputs]
    order = [list(specs).index(place) for place in places]

    def answer(*values):
        return dict(zip(names, frozen(*[values[place] for place in order]), strict=True))

    module = tf.Module()
    module.answer = tf.function(answer, input_signature=list(specs.values()), autograph=False)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with tempfile.TemporaryDirectory() as folder, quiet_errors():
        tf.saved_model.save(module, folder, signatures={DEFAULT: module.answer}, options=options)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[DEFAULT])
        if precision != FLOAT32:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if precision == FLOAT16:
            converter.target_spec.supported_types = [tf.float16]
        try:
            content = converter.convert()
        except Exception as error:  # its own kind, which holds pages of text
            raise UsageError(
                f"--format=litert: LiteRT cannot hold this network ({reason_of(str(error))}). Take --format=onnx."
            ) from None
    with open(path, "wb") as file:
        file.write(content)


def reason_of(message: str) -> str:
    """Returns what the converter misses, in a line."""
    if found := sorted({name for names in MISSING.findall(message) for name in names if name}):
        return f"it lacks {', '.join(found)}"
    return f"{' '.join(message.split()):.200}"
