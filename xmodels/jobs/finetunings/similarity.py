"""Labels of pairs of texts that have no order: each is read in both."""

from xmodels.jobs.finetunings.classify import Labels
from xmodels.tasks.similarity import Similarity


class BothWays(Labels):
    """Rows of two texts with a label."""

    title = "Classifier of pairs, read in both orders"
    task_class = Similarity
    orders = Similarity.orders
