"""Learns several labels from a teacher beside those of the rows (Hinton et al., 2015, arXiv 1503.02531, section 2, for each label)."""

from keras import ops

from xmodels.tasks.classify.distillation import PROBABILITIES, SMALLEST
from xmodels.tasks.multi_label.task import MultiLabel


class DistilledMultiLabel(MultiLabel):
    """A `MultiLabel` whose loss also has the divergence of its probabilities from those of a teacher, both at a temperature.

    loss = (1 - share) * cross-entropies + share * T^2 * the mean over labels of KL(p, q), with p = sigmoid(logit(teacher) / T) and
    q = sigmoid(logits / T).

    Args:
        temperature: T.
        share: of the divergence; 1 for no labels.
        Others as of `MultiLabel`.
    """

    label = "multi_label"  # its weights, and what is handed over, are those of the task
    reads = MultiLabel.reads | PROBABILITIES

    def __init__(self, *args, temperature: float = 2.0, share: float = 0.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.temperature, self.share = temperature, share

    def score(self, outputs, batch, backbone):
        logits, weights = outputs["logits"], ops.cast(batch["example_weights"], "float32")  # (B, C), (B,)
        losses, metrics = super().score(outputs, batch, backbone)
        hard, count = losses["multi_label"]
        teacher = ops.clip(ops.cast(batch["teacher_probabilities"], "float32"), SMALLEST, 1.0 - SMALLEST)  # (B, C)
        divergences = ops.mean(
            divergence(ops.log(teacher) - ops.log1p(-teacher), logits, self.temperature), axis=-1
        )  # (B,)
        same = ops.cast(ops.all((logits > 0) == (teacher > 0.5), axis=-1), "float32")
        total, soft = ops.sum(weights), self.share * self.temperature**2 * ops.sum(divergences * weights)
        return (
            {"multi_label": ((1.0 - self.share) * hard, count), "distillation": (soft, total)},
            metrics | {"agreement": (ops.sum(same * weights), total)},
        )


def divergence(teacher, student, temperature: float):
    """Returns the Kullback-Leibler divergence of sigmoid(student / T) from sigmoid(teacher / T), for each of the logits."""
    first, second = teacher / temperature, student / temperature
    # log sigmoid(x) = -softplus(-x), and log(1 - sigmoid(x)) = -softplus(x)
    with_label = ops.softplus(-second) - ops.softplus(-first)
    without = ops.softplus(second) - ops.softplus(first)
    return ops.sigmoid(first) * with_label + ops.sigmoid(-first) * without
