"""Learns numbers from a teacher beside those of the rows."""

from data_pipelines.features import Feature
from xmodels.tasks.regress.task import Regress


class DistilledRegress(Regress):
    """A `Regress` that comes near the numbers of a teacher too.

    loss = (1 - share) * (score - label)^2 + share * (score - teacher's score)^2

    Args:
        share: of the teacher; 1 for no labels.
        Others as of `Regress`.
    """

    label = "regress"  # its weights, and what is handed over, are those of the task
    reads = Regress.reads | {"teacher_scores": Feature((), "float32")}

    def __init__(self, *args, share: float = 0.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.share = share

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        hard, count = losses["squared_error"]
        soft, _ = super().score(outputs, {**batch, "labels": batch["teacher_scores"]}, backbone)[0]["squared_error"]
        return {
            "squared_error": ((1.0 - self.share) * hard, count),
            "distillation": (self.share * soft, count),
        }, metrics
