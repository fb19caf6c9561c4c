"""Scores vectors of words by files of pairs and of analogies, and prints the scores."""

from xmodels.retrieval import words as tests


def score_pairs(known: tests.Words, path: str) -> dict[str, float]:
    """Returns `spearman`, the correlation with the scores of people, `pairs` that counted, and `pairs_left_out`, which have a word
    without a vector.

    Raises:
        DataError: the file cannot be read, or fewer than three pairs count.
    """
    found = tests.similarity(known, tests.read_pairs(path))
    print(f"similarity: Spearman {found.spearman:.4f} of {found.pairs:,} pairs; {found.left_out:,} left out")
    return {"spearman": found.spearman, "pairs": found.pairs, "pairs_left_out": found.left_out}


def score_analogies(known: tests.Words, path: str, method: str) -> dict[str, float]:
    """Returns `accuracy`, of the `analogies` that counted, and `analogies_left_out`; `method` is `add` or `multiply`.

    Raises:
        DataError: the file cannot be read.
    """
    each = tests.analogies(known, tests.read_analogies(path), method == "multiply")
    for name, section in each.items():
        print(f"analogies, {name}: {_share(section.right, section.asked)}; {section.left_out:,} left out")
    right, asked, left = (sum(getattr(s, name) for s in each.values()) for name in ("right", "asked", "left_out"))
    print(f"analogies: {_share(right, asked)}; {left:,} left out")
    return {"accuracy": right / max(1, asked), "analogies": asked, "analogies_left_out": left}


def _share(right: int, asked: int) -> str:
    return f"{right:,} of {asked:,} right ({right / asked:.2%})" if asked else "none asked"
