"""Learns labels of pairs from a teacher beside those of the rows."""

from xmodels.tasks.classify.distillation import PROBABILITIES, Distilled
from xmodels.tasks.similarity.task import Similarity


class DistilledSimilarity(Distilled, Similarity):
    """A `Similarity` that learns from a teacher too."""

    label = "similarity"  # its weights, and what is handed over, are those of the task
    reads = Similarity.reads | PROBABILITIES
