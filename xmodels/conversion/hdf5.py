"""HDF5 files of others, read such that nothing outside of the file is opened."""

import math
import os
from collections.abc import Callable, Mapping

import h5py
import numpy as np

from data_pipelines.errors import CheckpointError

MOST_UNFOLDED = 10  # times its bytes: what a file of weights may hold where it is compressed


def read_arrays(path: str, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by the names of their places, such as `layers/dense/vars/0`.

    Raises:
        CheckpointError: there is no such file, it is damaged, or it holds links or arrays that lead elsewhere, or it promises
            more than it holds.
    """
    if not os.path.isfile(path):
        more = " (weights in several files are not read)" if os.path.isfile(path.replace(".h5", ".json")) else ""
        raise CheckpointError(f"{path}: no such file{more}.")
    try:
        with h5py.File(path) as file:
            arrays = {name: file[name] for name in dataset_names(file) if wanted(name)}
            _check_arrays(arrays, os.path.getsize(path))
            return {name: np.asarray(array) for name, array in arrays.items()}
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"{path}: not a readable file of weights ({error}).") from None


def dataset_names(group: h5py.Group, lead: str = "", met: set[int] | None = None) -> list[str]:
    """Returns the names of all arrays that stand in the file itself.

    Args:
        met: the places of the groups that were read already.

    Raises:
        ValueError: a link or an array leads elsewhere, be it into another file, or a group has two names, and may hold itself.
    """
    names, met = [], set() if met is None else met
    if (place := h5py.h5o.get_info(group.id).addr) in met:
        raise ValueError(f"{lead:.60} leads elsewhere: it is another name of a group")
    met.add(place)
    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{lead}{name} leads elsewhere")
        entry = group[name]
        if isinstance(entry, h5py.Dataset) and (entry.is_virtual or entry.external):
            raise ValueError(f"the numbers of {lead}{name} stand in another file")
        names += dataset_names(entry, f"{lead}{name}/", met) if isinstance(entry, h5py.Group) else [f"{lead}{name}"]
    return names


def _check_arrays(arrays: Mapping[str, h5py.Dataset], size: int) -> None:
    """Compares what arrays promise with the bytes of their file, before anything of that size is made.

    Raises:
        ValueError: an array is none of plain numbers, was never written, or all together promise far more than the file holds.
    """
    for name, array in arrays.items():
        if not isinstance(array, h5py.Dataset) or array.shape is None or not _is_plain(array.dtype):
            raise ValueError(f"{name} is no array of numbers")
    promised = {name: math.prod(array.shape) * array.dtype.itemsize for name, array in arrays.items()}
    for name, array in arrays.items():
        if promised[name] and not array.id.get_storage_size():
            raise ValueError(f"{name} promises {promised[name]:,} bytes, and none of them are stored")
    if (whole := sum(promised.values())) > MOST_UNFOLDED * size:
        raise ValueError(f"its arrays promise {whole:,} bytes, but it has {size:,}")


def _is_plain(dtype: np.dtype) -> bool:
    """Returns whether an array is of numbers; bfloat16 is two bytes without a name."""
    return dtype.kind in "fiub" or (dtype.kind == "V" and dtype.names is None and dtype.itemsize == 2)
