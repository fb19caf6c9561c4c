"""Capitals (Sun et al., 2020, arXiv 1907.12412, section 3.2.1)."""

from data_pipelines.features import Feature
from xmodels.objectives.token_labels import TokenLabels


class Capitals(TokenLabels):
    """Predicts for each token whether its word was capitalised (1) or not (0). The network reads lower-cased text.

    The metric `capitals_share` is the accuracy of always predicting 1: about 1 word in 8 in English.
    """

    reads = needs = {"capital_labels": Feature((None,))}
