"""Learning rates by depth: layer-wise decay, ULMFiT's discriminative fine-tuning and gradual unfreezing, as one table of rates.

The depth of a variable follows from its name (`models.backbone.named_weights`), by the same rule for all networks:

- 0, the bottom: names whose first part contains "embed", such as `embedding.token.embeddings`, but for an output matrix; and the
  `words` of each of several stacks, such as `ahead.words.embeddings`;
- N + 1: names with a number, such as `blocks.N.mixer.query.kernel` or `encoder.layers.N.norm.gamma`; the first number counts;
- the top, one above the largest of these: everything else, such as a pooler or a final norm, and all heads.
"""

import dataclasses
import re

from data_pipelines.errors import UsageError
from xmodels.models.backbone import named_weights
from xmodels.training.optimizers.groups import REST, Group, divide
from xmodels.training.optimizers.synced import Rate

OUTPUT = ".output_matrix."  # of networks whose output does not share the table of their input
WORDS = ".words.embeddings"
NUMBERED = re.compile(r"\.(\d+)\.")


def depths(names) -> dict[str, int | None]:
    """Returns {name: depth} of the weights of a backbone; None for the top."""
    found = {}
    for name in names:
        number = NUMBERED.search(name)
        if "embed" in name.split(".", 1)[0]:
            found[name] = None if OUTPUT in name else 0
        elif WORDS in name:
            found[name] = 0
        else:
            found[name] = int(number[1]) + 1 if number else None
    return found


@dataclasses.dataclass(frozen=True)
class Layerwise:
    """How learning rates depend on depth.

    Attributes:
        decay: the rate of a layer divided by that of the layer above it; 1 / 2.6 in ULMFiT. 0 freezes all below the top.
        thaw_steps: steps between the unfreezing of one layer and the next, from the top down; 0 trains all from the start.
    """

    decay: float = 1.0
    thaw_steps: int = 0

    def groups(self, backbone) -> tuple[Group, ...]:
        """Returns a group for each depth below the top, from the top down; () if all learn at the same rate.

        Raises:
            UsageError: the network has no numbered layers, so the depth of its weights is unknown.
        """
        if self == Layerwise():
            return ()
        found: dict[int, set[str]] = {}
        for name, depth in depths(named_weights(backbone)).items():
            if depth is not None:
                found.setdefault(depth, set()).add(f"backbone.{name}")
        if not set(found) - {0}:
            raise UsageError(
                f"--layerwise_lr_decay and --gradual_unfreezing: {type(backbone).__name__} has no numbered layers, so "
                "the depth of its weights is not known. Leave the flags out."
            )
        top = max(found) + 1
        return tuple(
            Group(
                f"depth_{depth}", frozenset(found[depth]).__contains__, rate=float(self.decay ** (top - depth)),
                begins=(top - depth) * self.thaw_steps,
            )
            for depth in sorted(found, reverse=True)
        )  # fmt: skip

    def rates(self, backbone) -> list[tuple]:
        """Returns (variable, Rate) for the weights of a backbone below the top; [] if all learn at the same rate.

        Raises:
            UsageError: as `groups`.
        """
        weights = {f"backbone.{name}": weight for name, weight in named_weights(backbone).items()}
        divided = divide(self.groups(backbone), weights)
        return [
            (weights[n], Rate(group.rate, int(group.begins or 0))) for n, group in divided.items() if group.name != REST
        ]

    def describe(self, backbone) -> str:
        """Describes the rates of all layers from the top down in a line; "" if all are equal."""
        by_rate = dict.fromkeys([Rate(), *sorted({rate for _, rate in self.rates(backbone)}, key=_order)])
        shown = [f"{r.factor:.3g}" + (f" from step {r.begins}" if r.begins else "") for r in by_rate]
        return f"Rates from the top down: {', '.join(shown)}." if len(shown) > 1 else ""


def _order(rate: Rate):
    return -rate.factor, rate.begins
