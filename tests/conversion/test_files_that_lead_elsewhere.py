"""HDF5 files whose arrays lie in other files, or promise more than they hold, are refused before anything is read or allocated."""

import resource
import time

import h5py
import numpy as np
import pytest

from data_pipelines.errors import CheckpointError
from xmodels.conversion.hdf5 import read_arrays

SECRET = b"root:x:0:0:" * 20


def external(file, folder):
    file.create_dataset("layers/a", (8,), "f4", external=[(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)])


def external_of_one_part(file, folder):
    file.create_dataset("a", (8,), "f4", external=[(str(folder / "secret"), 0, 32)])


def virtual(file, folder):
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", (8,))
    file.create_virtual_dataset("layers/a", layout)


def virtual_of_the_same_file(file, folder):
    file["x"] = np.ones(8, "f4")
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:] = h5py.VirtualSource(".", "x", (8,))
    file.create_virtual_dataset("a", layout)


def soft_link(file, folder):
    file["x"] = np.ones(8, "f4")
    file["a"] = h5py.SoftLink("/x")


def external_link(file, folder):
    file["a"] = h5py.ExternalLink(str(folder / "other.h5"), "/x")


def external_link_of_a_group(file, folder):
    file["layers/a"] = h5py.ExternalLink(str(folder / "other.h5"), "/")


def group_in_itself(file, folder):
    group = file.create_group("layers")
    group["one"] = group["two"] = group


def terabytes(file, folder):
    file.create_dataset("a", (10**12,), "f4", chunks=(1024,))


def terabytes_with_a_chunk(file, folder):
    file.create_dataset("a", (10**12,), "f4", chunks=(1024,))[:3] = 1


def terabytes_of_zeros(file, folder):
    file.create_dataset("a", (10**8,), "f4", chunks=(10**7,), compression="gzip")[:] = 0


def texts(file, folder):
    file["a"] = ["text"] * 3


def structure(file, folder):
    file["a"] = np.zeros(3, [("x", "f4"), ("y", "i4")])


def nothing(file, folder):
    file["a"] = h5py.Empty("f4")


KINDS = (
    external, external_of_one_part, virtual, virtual_of_the_same_file, soft_link, external_link, external_link_of_a_group,
    group_in_itself, terabytes, terabytes_with_a_chunk, terabytes_of_zeros, texts, structure, nothing,
)  # fmt: skip


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_file_of_weights_holds_its_numbers_itself(tmp_path, make):
    (tmp_path / "secret").write_bytes(SECRET)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(8, "f4")
    path = str(tmp_path / "model.weights.h5")
    with h5py.File(path, "w") as file:
        make(file, tmp_path)
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="leads elsewhere|stand in another file|promise|no array of numbers"):
        read_arrays(path)
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB


def test_plain_and_compressed_numbers_are_read(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    path = str(tmp_path / "model.weights.h5")
    with h5py.File(path, "w") as file:
        file["layers/a"] = numbers
        file.create_dataset("layers/b", data=numbers, compression="gzip", shuffle=True)
        file["c"] = np.float32(3)
        file["none"] = np.zeros((0, 4), "f4")
    found = read_arrays(path)
    np.testing.assert_array_equal(found["layers/a"], numbers)
    np.testing.assert_array_equal(found["layers/b"], numbers)
    assert found["c"] == 3 and found["none"].shape == (0, 4)
