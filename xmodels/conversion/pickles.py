"""Pickles of PyTorch, which can run code: read by `weights_only`, and only where that is allowed."""

import contextlib
import pickle
import pickletools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError

SAFE_TORCH = (2, 6)  # the first whose `weights_only` keeps its word
# What a damaged pickle raises.
UNREADABLE = (
    pickle.UnpicklingError, RuntimeError, EOFError, OSError, TypeError, ValueError, LookupError, AttributeError, ImportError,
    OverflowError, MemoryError,
)  # fmt: skip


def check_allowed(path: str, allow_pickle: bool) -> None:
    """Raises a CheckpointError where pickles are not allowed."""
    if not allow_pickle:
        raise CheckpointError(
            f"{path}: no pickle is loaded without `--allow_pickle`, because a pickle can run code. "
            "Prefer a model.safetensors; otherwise pass the flag if you trust whoever made the file."
        )


def unpickle(path: str, classes: Sequence[type] = ()) -> Any:
    """Returns what a file holds, with its tensors as NumPy arrays, those of fewer bits as float32.

    Args:
        classes: that may stand in it beside tensors, dictionaries, lists and plain values.

    Raises:
        CheckpointError: PyTorch is not there or too old, or the file is no such pickle.
    """
    try:
        import torch
    except ImportError:
        raise CheckpointError(
            f"{path}: reading it needs PyTorch. Install it with `pip install torch`, or convert the file to safetensors."
        ) from None
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < SAFE_TORCH:
        raise CheckpointError(
            f"{path}: PyTorch {torch.__version__} can run code of a pickle although it is told to load weights only "
            "(CVE-2025-32434). Install PyTorch 2.6 or newer."
        )
    try:
        with torch.serialization.safe_globals(list(classes)) if classes else contextlib.nullcontext():
            return _to_arrays(torch.load(path, map_location="cpu", weights_only=True), torch)
    except UNREADABLE as error:
        raise CheckpointError(f"{path}: not a readable PyTorch file of weights ({error}).") from None


# What numpy's own pickles of arrays name; old and new places of the same things.
OF_ARRAYS = {
    *((f"numpy.{room}.multiarray", name) for room in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{room}.numeric", "_frombuffer") for room in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("collections", "OrderedDict"),
    ("_codecs", "encode"),
}


def _empty_array(*arguments) -> np.ndarray:
    """Returns what numpy's pickles begin with, whatever size they name: numbers and shape follow with the state, which must
    agree."""
    return np.ndarray((0,), "u1")


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """Returns how protocol 2 writes the bytes of an array."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes by {encoding:.40}, which arrays do not need")
    return text.encode("latin1")


# Instead of functions that a pickle could misuse.
STAND_INS = {"_reconstruct": _empty_array, "ndarray": None, "encode": _latin1}


class _ArrayUnpickler(pickle.Unpickler):
    """Makes arrays of numpy, dictionaries and plain values; all else is an error."""

    def find_class(self, module, name):
        if (module, name) not in OF_ARRAYS:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no array")
        return STAND_INS[name] if name in STAND_INS else super().find_class(module, name)


def _check_sizes(path: str) -> None:
    """Goes through the instructions of a pickle without doing them.

    Raises:
        ValueError: one names more bytes than the file has, or a place to remember things that nothing before it needs.
    """
    with open(path, "rb") as file:
        for number, (instruction, argument, _) in enumerate(pickletools.genops(file)):
            if "PUT" in instruction.name and argument > number:
                raise ValueError(f"it remembers a value at the place {argument:,}, after {number:,} instructions")


def unpickle_arrays(path: str) -> dict[str, Any]:
    """Returns the dictionary of arrays that a pickle of numpy holds, such as a `.pdparams` of PaddlePaddle.

    Raises:
        CheckpointError: the file holds anything else.
    """
    try:
        _check_sizes(path)
        with open(path, "rb") as file:
            found = _ArrayUnpickler(file, encoding="latin1").load()
    except UNREADABLE as error:
        raise CheckpointError(f"{path}: not a readable pickle of arrays ({error}).") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: holds a {type(found).__name__}, expected a dictionary of arrays.")
    for name, value in found.items():
        if isinstance(value, np.ndarray) and (value.dtype.hasobject or not value.dtype.itemsize):
            raise CheckpointError(f"{path}: {name} holds {value.dtype}, not numbers.")
    return found


def _to_arrays(value: Any, torch) -> Any:
    if isinstance(value, torch.Tensor):
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError(
                f"a tensor of {list(value.shape)} repeats the {value.untyped_storage().nbytes():,} bytes that are stored"
            )
        return (value.float() if value.is_floating_point() else value).numpy()
    return {name: _to_arrays(inner, torch) for name, inner in value.items()} if isinstance(value, dict) else value
