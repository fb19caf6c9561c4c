"""What each generation of Cloud TPU can do, and which slices there are.

Per chip: peak bfloat16 FLOP/s, HBM and its bandwidth are those of Google's "TPU v2" to "TPU v6e" pages
(cloud.google.com/tpu/docs/v2, v3, v4, v5e, v5p, v6e; read in 2025). Interconnect is what leaves a chip over all its links, in
bytes/s: the same pages for v4 (2,400 Gbit/s), v5e (1,600), v5p (4,800) and v6e (3,584); for v2 and v3 four links of 496 and
656 Gbit/s (Jouppi et al., "A domain-specific supercomputer for training deep neural networks", CACM 63(7), 2020, table 3).
The pages round differently over time (v5e: 800 or 819 GB/s, v6e: 1,600 or 1,640 GB/s); the finer number stands here.

Matrices of float32 are multiplied in bfloat16 passes as XLA does by default on TPUs, so one peak serves both precisions.
"""

import dataclasses
import re

from data_pipelines.errors import UsageError

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One chip of a generation.

    Attributes:
        flops: peak bfloat16 FLOP/s.
        hbm: bytes.
        bandwidth: HBM bytes/s.
        interconnect: bytes/s that leave the chip over all links together.
        cores: devices that XLA sees in a chip. Those of v2 and v3 halve the chip; v4's two cores work as one.
        dimensions: of the torus: 2 for XxY, 3 for XxYxZ.
        most: chips in the largest slice.
        config: the name libtpu has for two cores that work as one.
        family: the name in `--accelerator_type`, and what its number counts: chips, or tensor cores (2 a chip).
        runtime: the TPU software version for TensorFlow wheels (cloud.google.com/tpu/docs/runtimes).
        gke: the value of the label `cloud.google.com/gke-tpu-accelerator`, where GKE has the chip.
    """

    flops: float
    hbm: int
    bandwidth: float
    interconnect: float
    dimensions: int
    most: int
    family: str
    counts_cores: bool
    runtime: str
    cores: int = 1
    config: str | None = None
    gke: str | None = None


BASE = "tpu-ubuntu2204-base"
CHIPS = {
    "v2": Chip(45e12, 16 * GIB, 700e9, 4 * 496e9 / 8, 2, 256, "v2", True, BASE, cores=2),
    "v3": Chip(123e12, 32 * GIB, 900e9, 4 * 656e9 / 8, 2, 1024, "v3", True, BASE, cores=2, gke="tpu-v3-slice"),
    "v4": Chip(275e12, 32 * GIB, 1200e9, 2400e9 / 8, 3, 4096, "v4", True, BASE, config="megacore", gke="tpu-v4-podslice"),
    "v5e": Chip(197e12, 16 * GIB, 819e9, 1600e9 / 8, 2, 256, "v5litepod", False, "v2-alpha-tpuv5-lite", gke="tpu-v5-lite-podslice"),
    "v5p": Chip(459e12, 95 * GIB, 2765e9, 4800e9 / 8, 3, 6144, "v5p", True, "v2-alpha-tpuv5", gke="tpu-v5p-slice"),
    "v6e": Chip(918e12, 32 * GIB, 1640e9, 3584e9 / 8, 2, 256, "v6e", False, "v2-alpha-tpuv6e", gke="tpu-v6e-slice"),
}  # fmt: skip
EXAMPLES = {"v2": "2x2", "v3": "2x2", "v4": "2x2x1", "v5e": "2x4", "v5p": "2x2x1", "v6e": "2x4"}


@dataclasses.dataclass(frozen=True)
class Topology:
    """A slice, such as v5e:2x4: eight chips of one generation.

    Attributes:
        generation: a key of `CHIPS`.
        shape: chips along each dimension of the torus.
    """

    generation: str
    shape: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, flag: str = "--topology") -> "Topology":
        """Reads "v5e:2x4". Raises a UsageError that names what is known."""
        generation, _, shape = text.partition(":")
        known = ", ".join(f"{name}:{EXAMPLES[name]}" for name in CHIPS)
        if generation not in CHIPS:
            raise UsageError(f"{flag}={text}: no such TPU generation. Known, each with a usual slice: {known}.")
        chip = CHIPS[generation]
        sizes = tuple(map(int, shape.split("x"))) if re.fullmatch(r"\d{1,4}(x\d{1,4}){1,2}", shape) else ()
        topology = cls(generation, sizes)
        if len(sizes) != chip.dimensions or not 0 < topology.num_chips <= chip.most:
            form = "XxYxZ" if chip.dimensions == 3 else "XxY"
            raise UsageError(
                f"{flag}={text}: a slice of {generation} is {generation}:{form} with at most {chip.most:,} chips, such as "
                f"{generation}:{EXAMPLES[generation]}."
            )
        return topology

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        return f"{self.generation}:{'x'.join(map(str, self.shape))}"

    @property
    def chip(self) -> Chip:
        return CHIPS[self.generation]

    @property
    def num_chips(self) -> int:
        product = 1
        for size in self.shape:
            product *= size
        return product

    @property
    def num_devices(self) -> int:
        """The devices that XLA sees, each of which is a replica of the training step."""
        return self.num_chips * self.chip.cores

    @property
    def accelerator_type(self) -> str:
        """What gcloud calls it: v5litepod-8, v4-8."""
        return f"{self.chip.family}-{self.num_chips * (2 if self.chip.counts_cores else 1)}"
