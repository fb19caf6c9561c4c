"""Formats of networks that stand apart: their files and what reads them. Imports nothing heavy."""

import importlib.util

from data_pipelines.errors import UsageError

ONNX, LITERT = "onnx", "litert"
FILES = {ONNX: "model.onnx", LITERT: "model.tflite"}  # in the folder of a version
NEEDS = {ONNX: ("onnxruntime",), LITERT: ("ai_edge_litert",)}  # packages of the extras of the same name
DEFAULT = "serving_default"


def check_packages(kind: str, needed: tuple[str, ...] | None = None) -> None:
    """Raises a UsageError where a package that reads a format is missing, or one of those that are `needed`."""
    missing = [name for name in needed or NEEDS[kind] if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{kind} needs {', '.join(missing)}. Install what is missing: pip install 'xmodels[{kind}]'.")
