"""Answers analogies of words, a : b = c : ?, by their vectors."""

from xmodels.retrieval.word_scores import score_analogies
from xmodels.retrieval.words import Words
from xmodels.tasks.base.source import Source


def evaluate(source: Source, test_file: str, vocabulary_limit: int, lower_case: bool, method: str) -> dict:
    """Prints and returns the scores of `score_analogies`; arguments as in `launch/evaluate.py`."""
    return score_analogies(Words(*source.word_vectors(), vocabulary_limit, lower_case), test_file, method)
