"""Scores of similarities: for labels 1 and 0, for texts and those that belong to them, for triplets."""

import numpy as np

DEPTHS = (1, 5, 10)  # of recall
CHUNK = 1024  # queries whose similarities are in memory at once


def best_threshold(similarities, matches) -> float:
    """Returns the cosine from which on texts match, so that most pairs are told rightly; in the middle between two pairs.

    Of several the lowest one. Below the lowest pair where calling all of them a match is best.
    """
    similarities, matches = np.asarray(similarities, np.float64), np.asarray(matches) > 0.5
    order = np.argsort(similarities, kind="stable")
    values = similarities[order]
    # Pairs below place i are no match: right are those before it that are none, and those from it on that are one.
    right = (
        np.concatenate([[0], np.cumsum(~matches[order])])
        + matches.sum()
        - np.concatenate([[0], np.cumsum(matches[order])])
    )
    allowed = np.concatenate([[True], values[1:] > values[:-1], [True]])  # equal similarities stay together
    place = int(np.argmax(np.where(allowed, right, -1)))
    ends = np.concatenate([[values[0] - 1e-6], values, [values[-1] + 1e-6]])
    return float((ends[place] + ends[place + 1]) / 2)


def match_scores(similarities, matches, threshold: float | None) -> dict:
    """Returns average_precision, and with the threshold accuracy, precision, recall and F1 of matches, as scikit-learn has
    them.

    Args:
        threshold: None chooses the best one for these pairs.
    """
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support

    similarities, right = np.asarray(similarities, np.float64), np.asarray(matches) > 0.5
    if threshold is None:
        threshold = best_threshold(similarities, right)
    found = similarities >= threshold
    precision, recall, f1, _ = precision_recall_fscore_support(right, found, average="binary", zero_division=0.0)
    return {
        "average_precision": float(average_precision_score(right, similarities)) if right.any() else 0.0,
        "accuracy": float(np.mean(found == right)),
        "f1": float(f1), "precision": float(precision), "recall": float(recall), "threshold": threshold,
    }  # fmt: skip


def ranks(vectors: np.ndarray, texts: list[tuple]) -> tuple[list[int], int]:
    """Returns for each example the rank, from 1, of its second text among all second and third texts, by cosine to its first.

    Equal texts are one candidate. Texts that are right too are no rivals: other second texts of an equal first text, and the
    first text itself. A rival with the same cosine stands before the right text.

    Args:
        vectors: (N, S, D).
        texts: N tuples of S texts, or of what tells texts apart.

    Returns:
        The ranks, and the number of candidates.
    """
    vectors = vectors / np.sqrt(np.sum(np.square(vectors, dtype=np.float64), axis=-1, keepdims=True) + 1e-12)
    places: dict = {}  # text -> number of the candidate
    where = []  # (row, side) of each candidate
    for row, sides in enumerate(texts):
        for side, text in enumerate(sides[1:], 1):
            if places.setdefault(text, len(where)) == len(where):
                where.append((row, side))
    rows, sides = np.array(where).T
    candidates = vectors[rows, sides].astype(np.float32)  # (C, D)
    right: dict = {}
    for anchor, positive, *_ in texts:
        right.setdefault(anchor, set()).add(places[positive])
    found = []
    for first in range(0, len(texts), CHUNK):
        scores = vectors[first : first + CHUNK, 0].astype(np.float32) @ candidates.T  # (Q, C)
        for row, (anchor, positive, *_) in zip(scores, texts[first : first + CHUNK], strict=True):
            own = row[places[positive]]
            rivals = row >= own
            rivals[list(right[anchor] | ({places[anchor]} if anchor in places else set()))] = False
            found.append(1 + int(rivals.sum()))
    return found, len(where)


def rank_scores(found: list[int], num_candidates: int) -> dict:
    """Returns mrr and recall_1, recall_5, recall_10 of ranks."""
    values = np.asarray(found)
    recalls = {f"recall_{depth}": float(np.mean(values <= depth)) for depth in DEPTHS}
    return {"mrr": float(np.mean(1.0 / values)), **recalls, "candidates": num_candidates}


def triplet_accuracy(vectors: np.ndarray) -> float:
    """Returns how often the first text is nearer to the second, by cosine, than to the third: (N, 3, D)."""
    lengths = np.sqrt(np.sum(np.square(vectors, dtype=np.float64), axis=-1, keepdims=True) + 1e-12)
    anchor, positive, negative = np.moveaxis(vectors / lengths, 1, 0)
    return float(np.mean(np.sum(anchor * positive, axis=-1) > np.sum(anchor * negative, axis=-1)))
