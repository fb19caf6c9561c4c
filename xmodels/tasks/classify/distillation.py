"""Learns labels from a teacher beside those of the rows (Hinton et al., 2015, arXiv 1503.02531, section 2)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.base.task import score_labels
from xmodels.tasks.classify.task import Classify

PROBABILITIES = {"teacher_probabilities": Feature((None,), "float32")}
SMALLEST = 1e-7  # probability of a teacher; its logarithm is finite


class Distilled:
    """Makes of a `Classify`, the base behind it, one whose loss also has the divergence of its probabilities from those of a teacher,
    both at a temperature.

    loss = (1 - share) * cross-entropy + share * T^2 * sum p log(p / q), with p = softmax(log(teacher) / T), q = softmax(logits / T).
    T^2 keeps the gradients of both parts comparable (section 2).

    Args:
        temperature: T.
        share: of the divergence; 1 for no labels.
        Others as of `Classify`.
    """

    def __init__(self, config, labels, reading=None, temperature: float = 2.0, share: float = 0.5, **kwargs):
        super().__init__(config, labels, reading, **kwargs)
        self.temperature, self.share = temperature, share

    def score(self, outputs, batch, backbone):
        logits, weights = outputs["logits"], ops.cast(batch["example_weights"], "float32")  # (B, C), (B,)
        (hard, count), accuracy = score_labels(logits, batch, self.class_weights)
        teacher = ops.cast(batch["teacher_probabilities"], "float32")  # (B, C)
        divergences = divergence(ops.log(ops.maximum(teacher, SMALLEST)), logits, self.temperature)  # (B,)
        same = ops.cast(ops.equal(ops.argmax(logits, axis=-1), ops.argmax(teacher, axis=-1)), "float32")
        total, soft = ops.sum(weights), self.share * self.temperature**2 * ops.sum(divergences * weights)
        return (
            {"classify": ((1.0 - self.share) * hard, count), "distillation": (soft, total)},
            {"accuracy": accuracy, "agreement": (ops.sum(same * weights), total)},
        )


class DistilledClassify(Distilled, Classify):
    """A `Classify` that learns from a teacher too."""

    label = "classify"  # its weights, and what is handed over, are those of the task
    reads = Classify.reads | PROBABILITIES


def divergence(teacher, student, temperature: float):
    """Returns the Kullback-Leibler divergence of softmax(student / T) from softmax(teacher / T): logits (B, C) -> (B,)."""
    first, second = (ops.log_softmax(each / temperature, axis=-1) for each in (teacher, student))
    return ops.sum(ops.exp(first) * (first - second), axis=-1)
