"""What the processor of this machine can do, as Linux tells it, and what TensorFlow makes of it. Imports nothing heavy."""

import os
import re
import sys
from collections.abc import Mapping, MutableMapping

CPUINFO = "/proc/cpuinfo"
BFLOAT16 = ("avx512_bf16", "amx_bf16")  # sets of instructions that multiply bfloat16
# With one of these, TensorFlow uses oneDNN by itself (IsMklEnabled in tsl/platform and tensorflow/core/util/port.cc).
BRINGS_ONEDNN = ("avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16")
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"  # the variable by which TensorFlow is told, before it is imported
MOST = "ONEDNN_MAX_CPU_ISA"  # the variable by which oneDNN is told to use no wider instructions


def instruction_sets(path: str = CPUINFO) -> frozenset[str] | None:
    """Returns the flags of an x86 processor; None where nothing tells."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            flags = re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return frozenset(flags[1].split()) if flags else None


def multiplies_bfloat16(path: str = CPUINFO) -> bool | None:
    """Returns whether the processor has instructions that multiply bfloat16; None where nothing tells."""
    found = instruction_sets(path)
    return None if found is None else not found.isdisjoint(BFLOAT16)


def prefer_onednn(environ: MutableMapping[str, str] = os.environ, path: str = CPUINFO) -> None:
    """Asks TensorFlow for oneDNN on processors where it leaves it off, unless the environment decides or it is imported already.

    On AVX2 it leaves it off, and a training step takes 1.5 times as long (`benchmarks/results/processors.md`).
    """
    found = instruction_sets(path)
    if found and "avx2" in found and found.isdisjoint(BRINGS_ONEDNN) and "tensorflow" not in sys.modules:
        environ.setdefault(ONEDNN, "1")


def uses_onednn(environ: MutableMapping[str, str] = os.environ, path: str = CPUINFO) -> bool | None:
    """Returns whether TensorFlow, imported in this environment, uses oneDNN; None where nothing tells."""
    if (told := environ.get(ONEDNN, "").lower()) in ("0", "1", "true", "false"):
        return told in ("1", "true")
    found = instruction_sets(path)
    return None if found is None else not found.isdisjoint(BRINGS_ONEDNN)


def is_narrow(environ: Mapping[str, str] = os.environ, path: str = CPUINFO) -> bool:
    """Returns whether oneDNN multiplies by AVX2, since the processor has nothing wider or the environment says so."""
    found = instruction_sets(path) or frozenset()
    limited = environ.get(MOST, "").upper().startswith("AVX2")
    return "avx2" in found and (limited or "avx512f" not in found)
