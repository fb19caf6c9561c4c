"""Discourse relation (Sun et al., 2020, arXiv 1907.12412, section 3.2.2)."""

from xmodels.objectives.relation import Relation


class DiscourseRelation(Relation):
    """Predicts which connective, such as "however", was removed from between the two sentences."""
