"""Rows of pairs with a label, as of `classify`."""

from xmodels.tasks.classify import read
from xmodels.tasks.similarity.distillation import DistilledSimilarity


class Reader(read.Reader):
    """Labels of pairs."""

    distilled_class = DistilledSimilarity
