"""Relevance of a title to a query (Sun et al., 2020, arXiv 1907.12412, section 3.2.3)."""

from xmodels.objectives.relation import Relation


class Relevance(Relation):
    """Predicts whether the title was clicked for the query, only shown, or neither."""
