"""Sequence to sequence with adaptive computation time (Dehghani et al., 2018, section 2.2; Graves, 2016)."""

from keras import ops

from xmodels.layers.adaptive_computation import ponder_cost
from xmodels.objectives.seq2seq import Seq2Seq

PONDER_WEIGHT = 0.01  # tensor2tensor's


class PonderingSeq2Seq(Seq2Seq):
    """`Seq2Seq` with a ponder cost for each side: `ponder_weight` times the mean of steps plus remainder over its tokens.

    The metrics `encoder_steps` and `decoder_steps` are the mean numbers of steps per token.

    Args:
        label_smoothing: as in `Seq2Seq`.
        ponder_weight: tensor2tensor's `act_loss_weight`.
    """

    def __init__(self, label_smoothing: float = 0.1, ponder_weight: float = PONDER_WEIGHT, **kwargs):
        super().__init__(label_smoothing, **kwargs)
        self.ponder_weight = ponder_weight

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        costs, steps = ponder_losses(outputs, batch, self.ponder_weight)
        return losses | costs, metrics | steps


def ponder_losses(outputs, batch, ponder_weight: float) -> tuple[dict, dict]:
    """Returns the ponder cost of both sides, and their steps per token, as losses and metrics of an objective."""
    losses, metrics = {}, {}
    for stack, real in {"encoder": batch["padding_mask"], "decoder": batch["label_weights"] > 0}.items():
        times, remainders = outputs[f"{stack}_ponder_times"], outputs[f"{stack}_remainders"]
        cost, count = ponder_cost(times, remainders, real)
        losses[f"{stack}_ponder"] = ponder_weight * cost, count
        metrics[f"{stack}_steps"] = ops.sum(times * ops.cast(real, "float32")), count
    return losses, metrics
