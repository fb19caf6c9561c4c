"""Discourse relation (Sun et al., 2020, arXiv 1907.12412, section 3.2.2)."""

from xmodels.objectives.relation import Relation


class DiscourseRelation(Relation):
    """Which connective, such as "however", was taken out between the two sentences?"""
