"""Formats and precisions of exports, and which of them go together. Imports nothing heavy."""

from data_pipelines.errors import UsageError
from xmodels.serving.kinds import LITERT, ONNX, check_packages

SAVED_MODEL, FLOAT32, BFLOAT16, FLOAT16, INT8 = "saved_model", "float32", "bfloat16", "float16", "int8"
PRECISIONS = {  # of each format, with the default first
    SAVED_MODEL: (FLOAT32, BFLOAT16),
    ONNX: (FLOAT32, FLOAT16, INT8),
    LITERT: (FLOAT32, FLOAT16, INT8),
}
ALL_PRECISIONS = (FLOAT32, BFLOAT16, FLOAT16, INT8)
WRITERS = {ONNX: ("tf2onnx", "onnx", "onnxruntime"), LITERT: ("ai_edge_litert",)}  # packages that an export needs
WHY_NOT = {
    (SAVED_MODEL, INT8): "Keras quantizes none of the projections of our attention",
    (SAVED_MODEL, FLOAT16): "TensorFlow computes it slowly on processors",
    (ONNX, BFLOAT16): "onnxruntime computes it on no processor",
    (LITERT, BFLOAT16): "LiteRT has no weights of that kind",
}


def check(kind: str, precision: str) -> None:
    """Raises a UsageError unless a format has a precision, and what writes it is installed."""
    if precision not in PRECISIONS[kind]:
        others = [each for each, known in PRECISIONS.items() if precision in known]
        raise UsageError(
            f"--precision={precision}: not with --format={kind}, since {WHY_NOT[kind, precision]}. It has "
            f"{', '.join(PRECISIONS[kind])}; {precision} goes with --format={' or '.join(others)}."
        )
    if kind in WRITERS:
        check_packages(kind, WRITERS[kind])
