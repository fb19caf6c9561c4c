"""How well candidates are ordered: MRR, MAP and nDCG, over the lists that have a relevant candidate."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from xmodels.tasks.base.pictures import draw_ranks, new_figure, write
from xmodels.tasks.base.score import score_inputs
from xmodels.tasks.rank.read import RankSource, read_lists, relevances

SELECTION_METRIC, READS_SOURCE = "ndcg_10", True
DEEPEST = 10
LISTED = 5  # queries whose first relevant candidate stands lowest


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    relevant_label: str | None, batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores; arguments as in `launch/evaluate.py`. With `plots`, a picture goes to that folder."""
    columns = predictor.columns_of(text_column, text_pair_column, label_column)
    lists = read_lists(test_file, columns, relevant_label=relevant_label or predictor.columns.get("relevant_label"))
    return score_inputs(predictor, test_file, lists, [relevances(each) for each in lists], batch_size, plots)


def for_scores(predictions) -> list[list[float]]:
    return [each.scores for each in predictions]


def order_relevances(scores: Sequence[float], labels: Sequence[float]) -> np.ndarray:
    """Returns the relevances in the order of the scores; of equal scores the less relevant candidate comes first, so that a
    network which tells nothing apart wins nothing by the order of the file."""
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    return labels[np.lexsort((labels, -scores))]


def reciprocal_rank(labels: np.ndarray) -> float:
    """Returns 1 / the rank of the first relevant candidate."""
    return 1.0 / (1 + int(np.flatnonzero(labels > 0)[0]))


def average_precision(labels: np.ndarray) -> float:
    """Returns the mean, over relevant candidates, of the share of relevant ones down to each."""
    places = np.flatnonzero(labels > 0)
    return float(np.mean(np.arange(1, len(places) + 1) / (places + 1)))


def ndcg(labels: np.ndarray, depth: int = DEEPEST) -> float:
    """Returns discounted gains 2^relevance - 1 of the first `depth`, over those of the best order (Burges et al., 2005)."""

    def gain(order):
        order = order[:depth]
        return float(np.sum((2.0**order - 1) / np.log2(np.arange(2, len(order) + 2))))

    return gain(labels) / gain(np.sort(labels)[::-1])


def scores(predictions: list[Sequence[float]], truth: list[Sequence[float]]) -> dict:
    """Returns mrr, map, ndcg_10 and precision_1, means over the lists with a relevant candidate; and how many lists these are.

    Args:
        predictions: the score of each candidate of each list.
        truth: their relevances.
    """
    rows = [order_relevances(*each) for each in zip(predictions, truth, strict=True) if np.max(each[1]) > 0]
    measures = {
        "mrr": reciprocal_rank, "map": average_precision, "ndcg_10": ndcg, "precision_1": lambda row: float(row[0] > 0)
    }  # fmt: skip
    found = {
        name: float(np.mean([measure(row) for row in rows])) if rows else 0.0 for name, measure in measures.items()
    }
    alone = sum(len(row) == 1 for row in rows)
    return found | {
        "lists": len(rows), "lists_of_one_candidate": alone, "lists_without_relevant": len(truth) - len(rows)
    }  # fmt: skip


def from_source(outputs, source: RankSource, task) -> tuple[list, list]:
    """Returns what `scores` takes, from outputs of the network for all rows of a set; rows of one list belong together."""
    lists = defaultdict(lambda: ([], []))
    arrays = source.arrays
    for row, number in enumerate(source.lists):
        there = arrays["choice_weights"][row] > 0
        found, labels = lists[int(number)]
        found += outputs["scores"][row][there].tolist()
        labels += arrays["labels"][row][there].tolist()
    return [found for found, _ in lists.values()], [labels for _, labels in lists.values()]


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list, settings: dict) -> None:
    """Prints the scores, what chance would give, and the queries that were answered worst."""
    left_out = (
        f", {found['lists_without_relevant']:,} left out because they have no relevant candidate"
        if found["lists_without_relevant"]
        else ""
    )
    alone = found["lists_of_one_candidate"]
    in_place = f"; {alone:,} have one candidate, which is first in any order" if alone else ""
    print(f"{test_file}: {found['lists']:,} lists{left_out}{in_place}")
    names = ("mrr", "map", "ndcg_10", "precision_1")
    print("  " + ", ".join(f"{name} {found[name]:.4f}" for name in names))
    rng = np.random.default_rng(0)
    drawn = scores([rng.random(len(each)) for each in truth], truth)
    print("  random order: " + ", ".join(f"{name} {drawn[name]:.4f}" for name in names))
    ranks = [
        (1 / reciprocal_rank(order_relevances(s, t)), asked.query)
        for asked, s, t in zip(inputs, predictions, truth, strict=True)
        if max(t) > 0
    ]
    for rank, query in sorted(ranks, key=lambda row: -row[0])[:LISTED]:
        if rank > 1:
            print(f"  first relevant candidate at rank {rank:.0f}: {query:.80}")


def draw(folder: str, predictions: list, truth: list, settings: dict) -> list[str]:
    """Returns a bar for each rank: how many lists have their first relevant candidate there."""
    rows = [order_relevances(*each) for each in zip(predictions, truth, strict=True) if np.max(each[1]) > 0]
    figure, axis = new_figure(5.6, 3.2)
    draw_ranks(axis, [round(1 / reciprocal_rank(row)) for row in rows], DEEPEST)
    axis.set(xlabel="rank of the first relevant candidate", ylabel="lists")
    return write(folder, {"ranks": figure})
