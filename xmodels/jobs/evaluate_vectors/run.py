"""Compares vectors of words with what people say of words."""

from data_pipelines.errors import UsageError
from xmodels.conversion import word_vectors
from xmodels.jobs.evaluate_vectors.options import Options
from xmodels.retrieval import words as tests


def evaluate_vectors(options: Options) -> dict[str, float]:
    """Returns the scores, and prints them: `spearman` of similarities, `accuracy` of analogies, and how many pairs or questions
    counted and were left out, because a word has no vector.

    Raises:
        UsageError: no file is given.
        DataError, CheckpointError: a file cannot be read.
    """
    if not options.similarity_file and not options.analogy_file:
        raise UsageError("Give --similarity_file or --analogy_file.")
    pairs = tests.read_pairs(options.similarity_file) if options.similarity_file else None
    sections = tests.read_analogies(options.analogy_file) if options.analogy_file else None
    known = tests.Words(*word_vectors.read(options.vectors), options.vocabulary_limit, options.lower_case)
    scores: dict[str, float] = {}
    if pairs is not None:
        found = tests.similarity(known, pairs)
        scores |= {"spearman": found.spearman, "pairs": found.pairs, "pairs_left_out": found.left_out}
        print(f"similarity: Spearman {found.spearman:.4f} of {found.pairs:,} pairs; {found.left_out:,} left out")
    if sections is not None:
        each = tests.analogies(known, sections, options.method == "multiply")
        for name, section in each.items():
            print(f"analogies, {name}: {_share(section.right, section.asked)}; {section.left_out:,} left out")
        right, asked, left = (sum(getattr(s, name) for s in each.values()) for name in ("right", "asked", "left_out"))
        print(f"analogies: {_share(right, asked)}; {left:,} left out")
        scores |= {"accuracy": right / max(1, asked), "analogies": asked, "analogies_left_out": left}
    return scores


def _share(right: int, asked: int) -> str:
    return f"{right:,} of {asked:,} right ({right / asked:.2%})" if asked else "none asked"
