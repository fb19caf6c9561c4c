"""Compiles StableHLO for a TPU that is not there, with the compiler that libtpu holds.

Runs as a process of its own (`python -m xmodels.tpu.compiler MODULE TOPOLOGY`) that imports jax and no TensorFlow: a compiler
that gives up on a module may end its process, and what it allocates goes back when it ends. It prints one line of JSON.

The compile-only client has no public door, so this file uses names of jaxlib beside those of jax; setup.py bounds the version.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from data_pipelines.errors import DeviceError, ReportedError
from xmodels.tpu.bounds import Cost
from xmodels.tpu.chips import GIB, Topology

EXTRA = "tpu-preflight"
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",  # ask no metadata server where we are
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # it holds no device, so two of them may compile at a time
    "JAX_PLATFORMS": "cpu",
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
OUT_OF_MEMORY = re.compile(r"Ran out of memory|RESOURCE_EXHAUSTED")
SIZES = re.compile(
    r"\(?([\d.]+)([KMG])\)? exceeds available HBM \(([\d.]+)([KMG])\)|Used ([\d.]+)([KMG]) of ([\d.]+)([KMG]) hbm"
)


class DoesNotCompile(ReportedError):
    """The compiler refuses the step; the message names the operation."""


class OutOfMemory(DoesNotCompile):
    """The step needs more HBM than the chip has.

    Attributes:
        needed, available: bytes; 0 where the compiler did not say.
    """

    def __init__(self, message: str, needed: int, available: int):
        super().__init__(message)
        self.needed, self.available = needed, available


def check_installed() -> None:
    """Raises a DeviceError that says what to install where jax or libtpu is missing."""
    missing = [name for name in ("jax", "libtpu") if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(
            f"The TPU compiler is not installed ({' and '.join(missing)} not found). Install it with "
            f"`pip install xmodels[{EXTRA}]`, or `pip install -e '.[{EXTRA}]'` from a checkout: 0.9 GB."
        )


def compile_step(path: str, topology: Topology, optimization_level: int | None = None) -> Cost:
    """Compiles the module in a file for all devices of a slice.

    Args:
        optimization_level: 1 is faster and uses more memory; None is what training would use.

    Raises:
        OutOfMemory: it does not fit. DoesNotCompile: it is refused otherwise. DeviceError: the compiler is missing.
    """
    return ask("xmodels.tpu.compiler", [path, topology.name, str(optimization_level)])


def ask(module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Runs a module that compiles, as a process of its own, and reads the line of JSON that it prints (`answer`).

    Raises:
        As `compile_step`.
    """
    check_installed()
    # Flags of the compiler for CPUs end libtpu, which does not know them.
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith("--xla_cpu_")]
    settings = {**os.environ, "XLA_FLAGS": " ".join(flags), **ENVIRONMENT, **(environment or {})}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DoesNotCompile(f"The TPU compiler ended with code {done.returncode}: {last[:300]}")
    found = json.loads(lines[-1])
    if "reported" in found:
        raise DoesNotCompile(found["reported"])
    if "error" in found:
        raise failure(found["error"])
    return Cost(**found)


def failure(message: str) -> DoesNotCompile:
    """Returns the error for a message of the compiler."""
    first = message.strip().splitlines()[0]
    if not OUT_OF_MEMORY.search(message):
        return DoesNotCompile(f"The TPU compiler refuses the step: {first}")
    found = SIZES.search(message)
    sizes = (
        [_bytes(*pair) for pair in zip(*[iter(g for g in found.groups() if g)] * 2, strict=True)] if found else [0, 0]
    )
    return OutOfMemory(f"Does not fit: {first}", *sizes)


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * GIB / 1024 ** "GMK".index(unit))


def answer(work: Callable[[], Mapping]) -> None:
    """Prints, in the process that compiles, what `work` gives, or the compiler's words, as one line of JSON."""
    try:
        found = work()
    except ReportedError as error:
        found = {"reported": str(error)}
    except Exception as error:  # whatever it is, the parent says it
        found = {"error": str(error) or repr(error)}
    print(json.dumps(found))


def devices_of(topology: Topology) -> list:
    """Returns the devices of a slice, which can be compiled for and no more; jax's."""
    from jax.experimental import topologies

    more = {"chip_config_name": topology.chip.config} if topology.chip.config else {}
    devices = topologies.get_topology_desc(topology_name=topology.name, platform="tpu", **more).devices
    if len(devices) != topology.num_devices:
        raise ValueError(f"libtpu sees {len(devices)} devices in {topology.name}, expected {topology.num_devices}.")
    return devices


def cost_of(cost: Mapping, memory, seconds: float) -> Mapping:
    """Returns the fields of `Cost`, from what a compiled program tells of itself."""
    return {
        "flops": cost.get("flops", 0.0), "bytes_accessed": cost.get("bytes accessed", 0.0),
        "arguments": memory.argument_size_in_bytes, "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes, "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes, "seconds": seconds,
    }  # fmt: skip


def _compile(path: str, name: str, level: str) -> Mapping:
    import numpy as np
    from jaxlib import xla_client

    devices = devices_of(Topology.parse(name))
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = len(devices), 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id] for device in devices]))
    if level != "None":
        options.executable_build_options.optimization_level = int(level)
    module = _parse(path)
    start = time.monotonic()
    program = devices[0].client.compile(module, xla_client.DeviceList(tuple(devices)), options)
    seconds = time.monotonic() - start
    return cost_of(program.cost_analysis(), program.get_compiled_memory_stats(), seconds)


def _parse(path: str):
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    with open(path, encoding="utf-8") as file, mlir.make_ir_context():
        return ir.Module.parse(file.read())


if __name__ == "__main__":
    answer(lambda: _compile(*sys.argv[1:]))
