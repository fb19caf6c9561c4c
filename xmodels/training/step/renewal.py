"""Layers that draw random weights anew during training, such as a Performer (Choromanski et al., 2021, section 4.2)."""

import hashlib

from xmodels.models.backbone import Backbone, sublayers


class Renewal:
    """Calls `renew(seed)` of layers that have it, every `renew_every` steps of each.

    What they draw depends on the seed of the run, the number of the layer and the step only, so a resumed run draws it again.

    Args:
        backbone: a built network.
        seed: of the run.
    """

    def __init__(self, backbone: Backbone, seed: int):
        self.layers = [layer for layer in sublayers(backbone) if getattr(layer, "renew_every", 0)]
        self.seed, self.drawn = seed, [0] * len(self.layers)

    def steps_to_next(self, step: int) -> list[int]:
        """Returns the steps from `step` to the next draw of each of these layers."""
        return [layer.renew_every - step % layer.renew_every for layer in self.layers]

    def before(self, step: int) -> None:
        """Draws what is due before a step; draws what an interrupted run had drawn."""
        for index, layer in enumerate(self.layers):
            due = step // layer.renew_every
            if due != self.drawn[index]:
                text = f"{self.seed} {index} {due}".encode()
                layer.renew(int.from_bytes(hashlib.sha256(text).digest()[:4], "little") >> 1)
                self.drawn[index] = due
