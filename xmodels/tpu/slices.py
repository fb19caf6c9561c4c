"""What a slice is made of when it is rented: its hosts, and its names in gcloud and in Kubernetes."""

import dataclasses
import re

from data_pipelines.errors import UsageError
from xmodels.tpu.chips import CHIPS, Topology

# Chips of a slice -> its usual shape (cloud.google.com/tpu/docs/v5e, v6e: two dimensions; v4, v5p: three).
FLAT = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
DEEP = {4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8", 512: "8x8x8"}
FAMILIES = {chip.family: generation for generation, chip in CHIPS.items()}


@dataclasses.dataclass(frozen=True)
class RentedSlice:
    """A slice by the name that gcloud has for it, such as v5litepod-16.

    Attributes:
        accelerator_type: that name.
        topology: its usual shape.
    """

    accelerator_type: str
    topology: Topology

    @classmethod
    def parse(cls, text: str) -> "RentedSlice":
        """Reads --accelerator_type. Raises a UsageError that names what is known."""
        found = re.fullmatch(r"([a-z0-9]+)-(\d{1,5})", text)
        if not found or found[1] not in FAMILIES:
            raise UsageError(
                f"--accelerator_type={text}: unknown. Known are {', '.join(f'{family}-N' for family in FAMILIES)}, such as "
                "v5litepod-8 (8 chips) or v4-8 (8 cores, 4 chips)."
            )
        generation, number = FAMILIES[found[1]], int(found[2])
        chip = CHIPS[generation]
        shapes = FLAT if chip.dimensions == 2 else DEEP
        per_chip = 2 if chip.counts_cores else 1
        if number % per_chip or number // per_chip not in shapes:
            sizes = ", ".join(str(per_chip * size) for size in shapes if size <= chip.most)
            raise UsageError(f"--accelerator_type={text}: {found[1]} comes in sizes {sizes}.")
        return cls(text, Topology.parse(f"{generation}:{shapes[number // per_chip]}", "--accelerator_type"))

    @property
    def chips_per_host(self) -> int:
        """v5e and v6e put a whole slice of up to 8 chips into one host; all else has 4 chips a host."""
        chips = self.topology.num_chips
        return chips if self.topology.generation in ("v5e", "v6e") and chips <= 8 else min(chips, 4)

    @property
    def num_hosts(self) -> int:
        return self.topology.num_chips // self.chips_per_host
