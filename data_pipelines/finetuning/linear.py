"""Logistic regression on features of labelled rows, and the accuracies that need no network: the commonest label, a bag of words."""

import collections
import dataclasses
import re
import warnings
from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.tables import Row

HELD_OUT = 0.2  # of the rows to fit on; they choose the strength
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # inverse, scikit-learn's C: larger ones let weights grow
STRENGTHS_OF_WORDS = (0.1, 1.0, 10.0, 100.0)  # rows of weighted counts have length 1
MOST_STEPS = 300  # of L-BFGS; where it stops before its end, that too keeps weights small
MOST_TERMS = 200_000
# Scripts that put no blanks between words are read character by character: kana and ideographs.
WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f"
TERM = re.compile(rf"[{WIDE}]|[^\W_{WIDE}]+")


@dataclasses.dataclass(frozen=True)
class Fit:
    """What logistic regression scores.

    Attributes:
        accuracy: on the test rows.
        held_out_accuracy: on the part of the rows to fit on that chose the strength. Choose between kinds of features by it, not
            by `accuracy`.
        strength: inverse, scikit-learn's C.
    """

    accuracy: float
    held_out_accuracy: float
    strength: float


def fit(
    train, labels: np.ndarray, test, truth: np.ndarray, seed: int = 0, strengths: Sequence[float] = STRENGTHS
) -> Fit:
    """Returns multinomial logistic regression. A fifth of the rows, drawn by label, chooses how strongly weights are kept
    small; then all rows are fitted.

    Args:
        train, test: (N, D) and (M, D), numpy, each dimension of which is standardized by `train`; or sparse, which stay as they are.
        labels, truth: int (N,) and (M,).
        strengths: inverse ones to choose from; of equally good ones the smallest is taken.
    """
    kept, held_out = split_rows(labels, seed)
    scored = [(_score(train[kept], labels[kept], train[held_out], labels[held_out], each), -each) for each in strengths]
    best, strength = max(scored)
    return Fit(_score(train, labels, test, truth, -strength), best, -strength)


def split_rows(labels: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the rows to fit on, and of those that are held out: of each label the same share, and one row at
    least is kept.

    Where every label has one row, nothing can be held out, and both are all rows.
    """
    random, held_out = np.random.default_rng(seed), []
    for label in np.unique(labels):
        places = random.permutation(np.flatnonzero(labels == label))
        held_out.append(places[: min(len(places) - 1, max(1, round(HELD_OUT * len(places))))])
    held_out = np.sort(np.concatenate(held_out))
    if not len(held_out):
        return np.arange(len(labels)), np.arange(len(labels))
    return np.setdiff1d(np.arange(len(labels)), held_out), held_out


def _score(train, labels, test, truth, strength: float) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if isinstance(train, np.ndarray):
        train, test = standardize(train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=MOST_STEPS).fit(train, labels)
    return float((model.predict(test) == truth).mean())


def standardize(first: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Returns each dimension, (N, D), with mean 0 and deviation 1 in the first part."""
    parts = [np.asarray(part, np.float32) for part in (first, *others)]
    mean, spread = parts[0].mean(axis=0), parts[0].std(axis=0)
    spread = np.where(spread > 1e-6 * np.abs(mean) + 1e-12, spread, 1.0)  # a dimension that is the same in all rows
    return [(part - mean) / spread for part in parts]


def majority(labels: Sequence, truth: Sequence) -> float:
    """Returns the accuracy of always naming the commonest label of the rows to fit on."""
    commonest = collections.Counter(labels).most_common(1)[0][0]
    return sum(label == commonest for label in truth) / len(truth)


def terms(text: str) -> list[str]:
    """Returns words in small letters and pairs of neighbours; of Chinese and Japanese characters and pairs of these."""
    words = TERM.findall(text.lower())
    return [*words, *(f"{a} {b}" for a, b in zip(words, words[1:], strict=False))]


def terms_of(texts: Sequence[str]) -> list[str]:
    """Returns the terms of a row: of a pair each with the number of its text, and those that both texts have."""
    if len(texts) == 1:
        return terms(texts[0])
    each = [terms(text) for text in texts]
    both = set(each[0]).intersection(*each[1:])
    return [f"{i}:{term}" for i, found in enumerate(each) for term in found] + [f"both:{term}" for term in sorted(both)]


def bag_of_words(train: Sequence[Row], test: Sequence[Row], seed: int = 0) -> Fit:
    """Returns logistic regression on TF-IDF of `terms_of`: what can be told from the words, without a network."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    counts = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True, max_features=MOST_TERMS)
    found = counts.fit_transform([row.texts for row in train]), counts.transform([row.texts for row in test])
    labels, truth = (np.array([row.label for row in rows]) for rows in (train, test))
    return fit(found[0], labels, found[1], truth, seed, STRENGTHS_OF_WORDS)
