"""Files of arrays that numpy writes, `.npz`. No pickle is loaded, and no header is believed that names more bytes than there are."""

import math
import os
import zipfile

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion.hdf5 import MOST_UNFOLDED


def read_npz(path: str) -> dict[str, np.ndarray]:
    """Returns all arrays of a file. Raises a CheckpointError that names the file if it is damaged or holds anything else."""
    try:
        with zipfile.ZipFile(path) as archive:
            unfolded = sum(entry.file_size for entry in archive.infolist())
        if unfolded > MOST_UNFOLDED * os.path.getsize(path):
            raise ValueError(f"{os.path.getsize(path):,} bytes that unfold to {unfolded:,}")
        with np.load(path, allow_pickle=False) as stored:
            return {name: _array(stored.zip, name) for name in stored.files}
    except Exception as error:  # numpy parses headers as Python, zip files raise their own
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: not a readable file of numpy arrays ({error}).") from None


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Returns an entry of an .npz, whose header must promise the bytes that it has.

    Raises:
        ValueError: it does not.
    """
    entry = next(each for each in (f"{name}.npy", name) if each in archive.NameToInfo)
    with archive.open(entry) as file:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_columns, dtype = read_header[np.lib.format.read_magic(file)](file)
        numbers = file.read()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"{name} promises {list(shape)} of {dtype}, and has {len(numbers):,} bytes")
    return np.frombuffer(numbers, dtype).reshape(shape, order="F" if by_columns else "C").copy()
