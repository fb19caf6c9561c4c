"""The most that a machine multiplies in a second: from a table for known accelerators, else measured."""

import functools
import os
import re
import time
from typing import Any

import tensorflow as tf

from data_pipelines import strict_json
from data_pipelines.files import write_json

FILE = "peak.json"
# Dense matrix multiplication in 1e12 FLOPs a second, as the makers state it: {name: (float32, bfloat16 or float16)}.
# Of GPUs since Ampere "float32" is TF32, which TensorFlow takes by default.
ACCELERATORS = {
    "H200": (494.7, 989.4), "H100 PCIe": (378.0, 756.0), "H100": (494.7, 989.4), "A100": (156.0, 312.0),
    "L40S": (183.0, 362.0), "L4": (60.0, 121.0), "A10": (62.5, 125.0), "V100": (15.7, 125.0), "T4": (8.1, 65.0),
}  # fmt: skip
SIZES, SECONDS = (512, 1024), 0.1  # of the measuring multiplications, and for how long each is repeated


def peak_flops(strategy: tf.distribute.Strategy, dtype: str, folder: str | None = None) -> dict | None:
    """Returns the peak of all devices of a strategy.

    Args:
        dtype: in which is computed, such as "float32" or "bfloat16".
        folder: a run folder, in which peak.json keeps the most that was measured; None keeps it nowhere.

    Returns:
        `flops_per_second` of all devices, and `how`, `device`, `dtype` and `devices`, which tell what that is; None of
        TPUs, whose kind TensorFlow does not tell.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if tf.config.list_physical_devices("TPU"):
        return None
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else "CPU"
    # Virtual CPUs share the cores of their host, so of these only hosts count.
    fact: dict[str, Any] = {
        "device": name,
        "dtype": dtype,
        "devices": strategy.num_replicas_in_sync if gpus else _hosts(strategy),
    }
    path = folder and os.path.join(folder, FILE)
    stored = (path and _read(path)) or {}
    if not all(stored.get(key) == value for key, value in fact.items()):
        stored = {}
    known = published_peak(name, dtype)
    one = known or measure_peak(dtype)
    # A machine that was busy when it was measured before may show more now; never less.
    most = max(one * fact["devices"], 0.0 if known else stored.get("flops_per_second", 0.0))
    fact |= {"flops_per_second": most, "how": "table" if known else "measured"}
    if path and fact != stored:
        write_json(path, fact)
    return fact


def published_peak(name: str, dtype: str) -> float | None:
    """FLOPs a second of an accelerator by the name that its driver gives; None of unknown ones."""
    for key, numbers in ACCELERATORS.items():
        if re.search(rf"\b{key}\b", name):
            return numbers[dtype != "float32"] * 1e12
    return None


def _hosts(strategy) -> int:
    cluster = strategy.cluster_resolver and strategy.cluster_resolver.cluster_spec().as_dict()
    return max(1, sum(len(tasks) for tasks in cluster.values())) if cluster else 1


def _read(path: str) -> dict | None:
    """Returns what was measured before; a file cut by a kill counts as none."""
    try:
        stored = strict_json.read(path)
    except (FileNotFoundError, ValueError):
        return None
    return stored if isinstance(stored, dict) and isinstance(stored.get("flops_per_second"), float) else None


@functools.cache
def measure_peak(dtype: str) -> float:
    """FLOPs a second of many matrix multiplications on the first device: the best of them by the clock, or, where that is more, what
    they do in a second of processor time on all cores, for on a busy machine the clock counts the time of others too."""
    best, on_gpu = 0.0, bool(tf.config.list_physical_devices("GPU"))
    for size in SIZES:
        x = tf.cast(tf.random.stateless_uniform((size, size), (1, 2)), dtype)
        multiply = tf.function(lambda a, b: tf.matmul(a, b))
        multiply(x, x).numpy()
        end, used, count = time.perf_counter() + SECONDS, time.process_time(), 0
        while time.perf_counter() < end:
            start = time.perf_counter()
            multiply(x, x)[0, 0].numpy()
            best, count = max(best, 2.0 * size**3 / (time.perf_counter() - start)), count + 1
        used = time.process_time() - used
        if used > SECONDS / 10 and not on_gpu:
            best = max(best, threads() * count * 2.0 * size**3 / used)
    return best


def threads() -> int:
    """Returns that of an operation of TensorFlow: as many as were asked for, or one for each core that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return tf.config.threading.get_intra_op_parallelism_threads() or usable or 1
