"""Numbers that look random but are a function of their indices: the same on every machine, in training, evaluation and export."""

import numpy as np


def hashes(seeds: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Returns numbers from 0 to 1 that depend on the seeds and their indices only, float32, the same on every machine and in every
    version: `triple32` of Wellons, 2018, as in `xmodels.layers.dropout`."""
    values = np.zeros(shape, "uint32")
    for each in (*seeds, *np.indices(shape)):
        values = _mix_bits(values + np.asarray(each).astype("uint32") + np.uint32(0x9E3779B9))
    return (values / 2.0**32).astype("float32")


def _mix_bits(x):
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(14))


def normal_hashes(seeds: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Returns `hashes` as numbers of a standard normal distribution, float32 (Box and Muller, 1958)."""
    first, second = np.maximum(hashes((*seeds, 1), shape), 2.0**-33), hashes((*seeds, 2), shape)
    return (np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * np.pi * second)).astype("float32")
