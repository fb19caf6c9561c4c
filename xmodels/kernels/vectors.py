"""What compiled steps do with vectors and scores."""

import hashlib
import math
import os
import pathlib
from collections.abc import Callable

import numba
import numpy as np

# Without `ninf` and `nnan`: a loss that is not finite must be seen.
FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(
    os.path.expanduser("~"), ".cache"
)  # of this user alone: it is executed


def cache_folder() -> str | None:
    """Returns the folder for what was compiled of these sources; None where nothing can be written."""
    sources = b"".join(path.read_bytes() for path in sorted(pathlib.Path(__file__).parent.glob("*.py")))
    folder = os.path.join(numba.config.CACHE_DIR or CACHE, "xmodels", "numba", hashlib.sha256(sources).hexdigest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    return folder


FOLDER = cache_folder()


def compiled(**options) -> Callable:
    """Returns a decorator: Numba compiles the function, and keeps what it compiled for these sources.

    Numba itself looks at the file of a function only, and would go on to use it when functions of other files that it calls have
    changed.
    """

    def decorate(function):
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, FOLDER
        try:
            return numba.njit(cache=bool(FOLDER), nogil=True, error_model="numpy", **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate


jit, parallel = compiled(fastmath=FAST), compiled(fastmath=FAST, parallel=True)
exact = compiled()  # with fast mathematics the compiler takes all numbers for finite
ONE = np.float32(1.0)
# 2 ** x for 0 <= x < 1 within 3e-8: a polynomial of Chebyshev points.
POWERS = np.polynomial.Polynomial(
    np.polynomial.chebyshev.Chebyshev.interpolate(lambda x: 2.0**x, 6, [0.0, 1.0]).convert(kind=np.polynomial.Polynomial).coef
).coef.astype(np.float32)  # fmt: skip
LOG2_E, LEAST = np.float32(1.0 / math.log(2.0)), np.float32(-120.0)


@jit
def dot(a, b):
    total = np.float32(0.0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@jit
def add(target, rate, x):
    """Adds `rate` times x."""
    for d in range(x.shape[0]):
        target[d] += rate * x[d]


@jit
def exponentials(scores, bits, found):
    """Writes e^-|z| of scores; `bits` int32 is room of the same shape. Written so that it becomes vector instructions."""
    a, b, c, d, e, f, g = POWERS
    for n in range(scores.shape[0]):
        x = max(-abs(scores[n]) * LOG2_E, LEAST)
        whole = np.int32(x - np.float32(0.9999999))  # x is 0 or below
        part = x - np.float32(whole)
        found[n] = a + part * (b + part * (c + part * (d + part * (e + part * (f + part * g)))))
        bits[n] = (whole + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for n in range(scores.shape[0]):
        found[n] *= powers[n]


@jit
def softplus(scores, bits, small, slopes):
    """Writes the slopes of log(1 + e^z) at scores, 1 / (1 + e^-z), and returns the sum of its values. `bits` and `small` are room."""
    exponentials(scores, bits, small)
    total = 0.0
    for begin in range(0, scores.shape[0], 64):  # a product of 64 numbers up to 2 is no infinity
        above, product = np.float32(0.0), 1.0
        for n in range(begin, min(begin + 64, scores.shape[0])):
            above += max(scores[n], np.float32(0.0))
            product *= ONE + small[n]
        total += above + math.log(product)
    for n in range(scores.shape[0]):
        slopes[n] = (ONE if scores[n] >= 0 else small[n]) / (ONE + small[n])
    return total
