"""Compares vectors of words with what people say of words."""

from data_pipelines.errors import UsageError
from xmodels.conversion import word_vectors
from xmodels.jobs.evaluate_vectors.options import Options
from xmodels.retrieval.word_scores import score_analogies, score_pairs
from xmodels.retrieval.words import Words


def evaluate_vectors(options: Options) -> dict[str, float]:
    """Returns the scores, and prints them: those of `score_pairs` and of `score_analogies`.

    Raises:
        UsageError: no file is given.
        DataError, CheckpointError: a file cannot be read.
    """
    if not options.similarity_file and not options.analogy_file:
        raise UsageError("Give --similarity_file or --analogy_file.")
    known = Words(*word_vectors.read(options.vectors), options.vocabulary_limit, options.lower_case)
    scores: dict[str, float] = {}
    if options.similarity_file:
        scores |= score_pairs(known, options.similarity_file)
    if options.analogy_file:
        scores |= score_analogies(known, options.analogy_file, options.method)
    return scores
