"""What no step can be faster than: arithmetic at the peak, memory at its bandwidth, gradients over the links.

The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009), with the interconnect as a third roof.
"""

import dataclasses

from xmodels.tpu.chips import Topology


@dataclasses.dataclass(frozen=True)
class Cost:
    """What the compiled step of one device costs, as the compiler counts it.

    Attributes:
        flops: a step.
        bytes_accessed: a step; what the operations read and write. Part of it stays in on-chip memory.
        arguments: bytes of weights, optimizer slots and the batch.
        outputs, aliased: bytes of the results, and of those that lie where arguments lay.
        temporaries: bytes, at the most.
        code: bytes of the program.
        hbm: bytes of HBM that the compiler may use; 0 where it did not say.
        seconds: of compiling.
    """

    flops: float
    bytes_accessed: float
    arguments: int
    outputs: int
    aliased: int
    temporaries: int
    code: int
    hbm: int = 0
    seconds: float = 0.0

    @property
    def memory(self) -> int:
        """Bytes of HBM of one device."""
        return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The least seconds of a step by each roof, and the tokens/s of the whole slice there.

    Attributes:
        arithmetic, bandwidth, interconnect: seconds a step.
        tokens: a step, over all devices.
    """

    arithmetic: float
    bandwidth: float
    interconnect: float
    tokens: int

    @property
    def holds(self) -> str:
        """The roof that is lowest."""
        return max(("arithmetic", "bandwidth", "interconnect"), key=lambda name: getattr(self, name))

    def tokens_per_second(self, name: str) -> float:
        """Returns the tokens a second at the roof of that name; infinity where it costs nothing."""
        seconds = getattr(self, name)
        return self.tokens / seconds if seconds else float("inf")


def all_reduce_bytes(parameter_bytes: int, devices: int) -> float:
    """Returns what each device sends to sum gradients over all: 2 (n - 1) / n times their size.

    Reduce-scatter and then all-gather each send (n - 1) / n; no algorithm sends less (Patarasuk and Yuan, 2009).
    """
    return 2 * (devices - 1) / devices * parameter_bytes


def bounds(cost: Cost, topology: Topology, tokens: int, parameter_bytes: int) -> Bounds:
    """Returns the roofs for one step.

    Args:
        cost: of one device.
        tokens: a step, over all devices.
        parameter_bytes: of all gradients, as they are summed.
    """
    chip = topology.chip
    sent = all_reduce_bytes(parameter_bytes, topology.num_chips)  # the cores of a chip share its links
    return Bounds(
        arithmetic=cost.flops * chip.cores / chip.flops,
        bandwidth=cost.bytes_accessed * chip.cores / chip.bandwidth,
        interconnect=sent / chip.interconnect,
        tokens=tokens,
    )
