"""What the processor of this machine can do, as Linux tells it."""

import re

CPUINFO = "/proc/cpuinfo"
BFLOAT16 = ("avx512_bf16", "amx_bf16")  # sets of instructions that multiply bfloat16


def multiplies_bfloat16(path: str = CPUINFO) -> bool | None:
    """Whether the processor has instructions that multiply bfloat16; None where nothing tells."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            flags = re.search(r"^flags\s*:(.*)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return any(name in flags[1].split() for name in BFLOAT16) if flags else None
