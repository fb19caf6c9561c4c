"""Capitals (Sun et al., 2020, arXiv 1907.12412, section 3.2.1)."""

from data_pipelines.features import Feature
from xmodels.objectives.token_labels import TokenLabels


class Capitals(TokenLabels):
    """Was the word written with a capital (1)? The network reads it in lower case.

    `capitals_share` is what always answering 1 would score; about 1 word of 8 in English.
    """

    reads = needs = {"capital_labels": Feature((None,))}
