"""Baselines without fine-tuning: the commonest label, a bag of words, averaged word vectors. Development rows choose the strength.

python -m xmodels.comparison.baselines '{"baseline": "majority", "train_file": …, "output_file": …}'
"""

import collections
import json
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.tables import Row
from data_pipelines.errors import DataError, ReportedError
from data_pipelines.files import write_json
from data_pipelines.finetuning.linear import (
    MOST_STEPS,
    MOST_TERMS,
    STRENGTHS,
    STRENGTHS_OF_WORDS,
    standardize,
    terms_of,
)
from xmodels.comparison.arms import BAG, MAJORITY
from xmodels.comparison.labelled import read_rows

PARTS = ("train_file", "eval_file", "test_file")


def main(arguments: list[str]) -> None:
    values = json.loads(arguments[0])
    bad_rows, encoding = [] if values.get("on_bad_row") == "skip" else None, values.get("encoding")
    train, dev = (read_rows(values[part], values, encoding, bad_rows) for part in PARTS[:2])
    test = read_rows(values[PARTS[2]], values, encoding)
    found = answers(values["baseline"], train, dev, test, values.get("vectors"))
    write_json(values["output_file"], found)
    print(f"{values['output_file']}: accuracy {found['dev']:.4f} on the development file.")


def answers(name: str, train: list[Row], dev: list[Row], test: list[Row], vectors: str | None = None) -> dict:
    """Returns what a baseline names.

    Args:
        vectors: the run of word vectors that are averaged.

    Returns:
        `labels`, one for each test row, `dev`, the accuracy on the development rows, and `chosen`, the strength that is best there.
    """
    if name == MAJORITY:
        commonest = collections.Counter(row.label for row in train).most_common(1)[0][0]
        right = [row.label == commonest for row in dev]
        return {"labels": [commonest] * len(test), "dev": sum(right) / len(right), "chosen": {}}
    if len({row.label for row in train}) < 2:
        raise DataError("The training rows have one label only; logistic regression needs two.")
    if name == BAG:
        from sklearn.feature_extraction.text import TfidfVectorizer

        counts = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True, max_features=MOST_TERMS)
        features = [counts.fit_transform([row.texts for row in train])]
        features += [counts.transform([row.texts for row in rows]) for rows in (dev, test)]
        return _regression(features, train, dev, STRENGTHS_OF_WORDS)
    words = WordVectors(vectors)
    return _regression(standardize(*(words.features(rows) for rows in (train, dev, test))), train, dev, STRENGTHS)


def _regression(features: list, train: list[Row], dev: list[Row], strengths: Sequence[float]) -> dict:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    labels, truth = (np.array([row.label for row in rows]) for rows in (train, dev))
    best, model, chosen = -1.0, None, 0.0
    for strength in strengths:  # of equally good ones the smallest is taken
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            made = LogisticRegression(C=strength, max_iter=MOST_STEPS).fit(features[0], labels)
        right = float((made.predict(features[1]) == truth).mean())
        if right > best:
            best, model, chosen = right, made, strength
    return {"labels": model.predict(features[2]).tolist(), "dev": best, "chosen": {"inverse strength": chosen}}


class WordVectors:
    """Vectors of a run, with the tokenizer that parts texts into its words."""

    def __init__(self, run: str):
        from xmodels.conversion import convert, word_vectors

        loaded = convert.load(run)
        self.table = np.asarray(word_vectors.table_of(loaded), np.float32)
        self.tokenizer = loaded.tokenizer.open()
        self.special = set(self.tokenizer.vocabulary.special_ids)

    def features(self, rows: list[Row]) -> np.ndarray:
        """Returns (N, D) means; of pairs both means, how they differ, and their products, (N, 4 D)."""
        means = [self.means([row.texts[i] for row in rows]) for i in range(len(rows[0].texts))]
        if len(means) == 1:
            return means[0]
        a, b = means
        return np.concatenate([a, b, np.abs(a - b), a * b], axis=1)

    def means(self, texts: list[str]) -> np.ndarray:
        """Returns (N, D): the mean vector of the known words of each text; zeros where none is known."""
        found = np.zeros((len(texts), self.table.shape[1]), np.float32)
        for i, pieces in enumerate(self.tokenizer.encode_batch(texts)):
            ids = [each for each in pieces.ids if each not in self.special]
            if ids:
                found[i] = self.table[ids].mean(axis=0)
        return found


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ReportedError as error:
        print(error)
        sys.exit(error.exit_code)
