"""What the tasks of `mt_dnn` score without a network: the commonest answer, and the words of the texts.

Labels: the commonest one, and logistic regression on TF-IDF. Numbers: their mean, and ridge regression on TF-IDF. Lists: an order by
chance, and the cosine of TF-IDF of query and candidate, which learns no weights. Development rows choose the strength.
"""

import json
import statistics

import numpy as np

from benchmarks.reproductions.commands import fraction_of
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.finetuning.linear import MOST_TERMS, STRENGTHS_OF_WORDS, terms, terms_of

LEVELS = "majority", "bag of words"
CHANCE = 20  # drawn orders, of which the mean is taken


def baselines(tasks: dict) -> dict[str, tuple[float, float]]:
    """{task: test scores of `LEVELS`} for the `Task`s of `mt_dnn`."""
    return {name: of_task(task) for name, task in tasks.items()}


def of_task(task, fraction: float = 1.0, seed: int = 0) -> tuple[float, float]:
    """The test scores of one task, with a share of its labels."""
    if task.kind == "rank":
        return of_lists(task)
    train, dev, test = (read_table(task.files[f"{part}_file"], Columns()) for part in ("train", "eval", "test"))
    train = fraction_of(train, fraction, seed)
    return (of_numbers if task.kind == "regress" else of_labels)(task, train, dev, test)


def over_seeds(task, fraction: float, seeds: list[int]) -> list[tuple[float, float]]:
    """The same for the rows that each seed draws."""
    return [of_task(task, fraction, seed) for seed in seeds]


def of_labels(task, train, dev, test) -> tuple[float, float]:
    """The decisive score of labels: accuracy, or Matthews' correlation."""
    from xmodels.comparison.arms import BAG, MAJORITY
    from xmodels.comparison.baselines import answers
    from xmodels.tasks.classify.score import matthews

    truth, found = [row.label for row in test], []
    for baseline in (MAJORITY, BAG):
        few = len({row.label for row in train}) < 2  # logistic regression needs two
        given = answers(MAJORITY if few else baseline, train, dev, test)["labels"]
        right = statistics.mean(a == b for a, b in zip(given, truth, strict=True))
        found.append(matthews(confusion_of(truth, given)) if task.score == "mcc" else right)
    return found[0], found[1]


def of_numbers(task, train, dev, test) -> tuple[float, float]:
    """The decisive correlation; that of one number for all is 0."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge

    from xmodels.tasks.regress.score import scores

    counts = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True, max_features=MOST_TERMS)
    features = [counts.fit_transform([row.texts for row in train])]
    features += [counts.transform([row.texts for row in rows]) for rows in (dev, test)]
    numbers = [[float(row.label) for row in rows] for rows in (train, dev, test)]
    fits = [Ridge(alpha=1 / strength).fit(features[0], numbers[0]) for strength in STRENGTHS_OF_WORDS]
    best = max(fits, key=lambda fit: scores(fit.predict(features[1]), numbers[1])[task.score])
    return 0.0, scores(best.predict(features[2]), numbers[2])[task.score]


def of_lists(task) -> tuple[float, float]:
    """The decisive measure of orders."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from xmodels.tasks.rank.score import scores

    train, test = (lists_of(task.files[f"{part}_file"]) for part in ("train", "test"))
    counts = TfidfVectorizer(analyzer=terms, sublinear_tf=True, max_features=MOST_TERMS)
    counts.fit([text for each in train for text in (each["query"], *each["candidates"])])
    truth, rng = [each["labels"] for each in test], np.random.default_rng(0)
    drawn = [scores([rng.random(len(labels)) for labels in truth], truth)[task.score] for _ in range(CHANCE)]
    cosines = [
        (counts.transform(each["candidates"]) @ counts.transform([each["query"]]).T).toarray()[:, 0] for each in test
    ]
    return statistics.mean(drawn), scores(cosines, truth)[task.score]


def lists_of(path: str) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def confusion_of(truth: list[str], given: list[str]) -> np.ndarray:
    """Counts [true][given]."""
    ids = {label: place for place, label in enumerate(sorted({*truth, *given}))}
    counts = np.zeros((len(ids), len(ids)), int)
    np.add.at(counts, ([ids[label] for label in truth], [ids[label] for label in given]), 1)
    return counts
