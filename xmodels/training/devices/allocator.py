"""glibc's allocator, told to keep the memory that a training step frees.

By default it gives large buffers back to the system after each step and asks for them again, page by page, in the next one.
With small networks that was a third of the time (`benchmarks/results/allocator.md`).
"""

import ctypes
import os
import platform

# Parameters of mallopt(3), from <malloc.h>.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
LARGEST = 2**31 - 1  # of an int
SETTINGS = {
    MMAP_THRESHOLD: 32 << 20,  # the most that it takes: larger buffers are still given back
    TRIM_THRESHOLD: LARGEST,  # the end of the heap stays
    TOP_PAD: 64 << 20,  # and grows in such steps
}
VARIABLES = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_MMAP_MAX_",
    "GLIBC_TUNABLES",
)


def keep_memory() -> bool:
    """Keeps what is freed for the next step; returns whether that was possible.

    It is not with other allocators than glibc's, and left alone where the environment sets the allocator.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in VARIABLES):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    done = [mallopt(name, value) for name, value in SETTINGS.items()]
    return all(done)
