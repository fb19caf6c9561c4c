"""Prints the nearest words of words."""

from data_pipelines.errors import UsageError
from xmodels.conversion import word_vectors
from xmodels.jobs.neighbours import picture
from xmodels.jobs.neighbours.options import Options
from xmodels.retrieval.words import Words
from xmodels.tasks.base import pictures


def neighbours(options: Options) -> dict[str, list[tuple[str, float]]]:
    """Returns {word: its nearest words with their cosines}, and prints them.

    Raises:
        UsageError: a word has no vector.
        CheckpointError: the file cannot be read.
    """
    known = Words(*word_vectors.read(options.vectors))
    found = {}
    for word in filter(None, (each.strip() for each in options.words.split(","))):
        nearest = known.neighbours(word, options.top_k)
        if nearest is None:
            raise UsageError(
                f"--words={word}: {options.vectors} has no vector of it, among {len(known.words):,} words."
            )
        found[word] = nearest
    if not found:
        raise UsageError("--words: names no word.")
    for word, nearest in found.items():
        print(word)
        for other, cosine in nearest:
            print(f"  {cosine:.4f}  {other}")
    if options.plots:
        if not any(found.values()):
            raise UsageError(f"--plots={options.plots}: {options.vectors} holds one word, which has no neighbours.")
        print(*pictures.write(options.plots, {"neighbours": picture.draw(known, found)}))
    return found
