"""HDF5 files of others, read such that nothing outside of the file is opened."""

import os
from collections.abc import Callable

import h5py
import numpy as np

from data_pipelines.errors import CheckpointError


def read_arrays(path: str, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by the names of their places, such as `layers/dense/vars/0`.

    Raises:
        CheckpointError: there is no such file, it is damaged, or it holds links or arrays that lead into other files.
    """
    if not os.path.isfile(path):
        more = " (weights in several files are not read)" if os.path.isfile(path.replace(".h5", ".json")) else ""
        raise CheckpointError(f"{path}: no such file{more}.")
    try:
        with h5py.File(path) as file:
            return {name: np.asarray(file[name]) for name in dataset_names(file) if wanted(name)}
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: not a readable file of weights ({error}).") from None


def dataset_names(group: h5py.Group, lead: str = "") -> list[str]:
    """Returns the names of all arrays that stand in the file itself.

    Raises:
        ValueError: a link or an array leads into another file.
    """
    names = []
    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{lead}{name} leads elsewhere")
        entry = group[name]
        if isinstance(entry, h5py.Dataset) and (entry.is_virtual or entry.external):
            raise ValueError(f"the numbers of {lead}{name} stand in another file")
        names += dataset_names(entry, f"{lead}{name}/") if isinstance(entry, h5py.Group) else [f"{lead}{name}"]
    return names
