"""Scores a classifier of pairs that are read in both orders: as one that reads them once."""

from xmodels.jobs.evaluations.classify import evaluate

__all__ = ["evaluate"]
