"""Networks in formats of their own, ids in and numbers out: ONNX by onnxruntime, LiteRT by its interpreter."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import numpy as np

from data_pipelines.errors import DataError
from xmodels.serving.kinds import DEFAULT, LITERT, ONNX, check_packages

Arrays = Mapping[str, np.ndarray]


class Network:
    """A network that was read.

    Attributes:
        path: its file.
        inputs: {name of a feature: dtype}, those that it reads.
    """

    path: str
    inputs: Mapping[str, np.dtype]

    def __call__(self, features: Arrays) -> dict[str, np.ndarray]:
        """Returns the numbers of the rows of features, by name; of no rows, none."""
        given = {name: np.asarray(features[name], dtype) for name, dtype in self.inputs.items()}
        count = len(next(iter(given.values())))
        if not count:  # not all kernels take a batch without rows
            given = {name: np.zeros((1, *(size or 1 for size in x.shape[1:])), x.dtype) for name, x in given.items()}
        return {name: value[:count] if not count else value for name, value in self.run(given).items()}

    def run(self, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the numbers of one row or more."""
        raise NotImplementedError


class OnnxNetwork(Network):
    """A network in the format of ONNX, on processors."""

    def __init__(self, path: str):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads()
        options.log_severity_level = 3  # errors: warnings speak of the graph, which is as it was exported
        self.path = path
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        kinds = {"tensor(int32)": np.int32, "tensor(bool)": bool, "tensor(float)": np.float32}
        self.inputs = {each.name: np.dtype(kinds[each.type]) for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]

    def run(self, features):
        return dict(zip(self._outputs, self._session.run(self._outputs, features), strict=True))


class LitertNetwork(Network):
    """A network in the format of LiteRT (TensorFlow Lite)."""

    def __init__(self, path: str):
        with quiet_errors():  # the interpreter says in C++ which delegate it takes
            from ai_edge_litert.interpreter import Interpreter

            interpreter = Interpreter(model_path=path, num_threads=num_threads())
            self._runner = interpreter.get_signature_runner(DEFAULT)
        self.path = path
        self.inputs = {name: np.dtype(each["dtype"]) for name, each in self._runner.get_input_details().items()}

    def run(self, features):
        return dict(self._runner(**features))


def open_network(path: str, kind: str) -> Network:
    """Returns the network of a file.

    Args:
        kind: ONNX or LITERT.

    Raises:
        UsageError: the package that reads it is missing.
        DataError: the file cannot be read.
    """
    check_packages(kind)
    try:
        return {ONNX: OnnxNetwork, LITERT: LitertNetwork}[kind](path)
    except Exception as error:  # each library raises its own
        message = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read ({message:.200}). Export the run again.") from None


def num_threads() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def quiet_errors() -> Iterator[None]:
    """Keeps what C++ prints in the body from the standard error."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
