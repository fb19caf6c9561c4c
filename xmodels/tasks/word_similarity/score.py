"""Compares cosines of the vectors of words with how alike people say that the words are."""

from xmodels.retrieval.word_scores import score_pairs
from xmodels.retrieval.words import Words
from xmodels.tasks.base.source import Source


def evaluate(source: Source, test_file: str, vocabulary_limit: int, lower_case: bool) -> dict:
    """Prints and returns the scores of `score_pairs`; arguments as in `launch/evaluate.py`."""
    return score_pairs(Words(*source.word_vectors(), vocabulary_limit, lower_case), test_file)
