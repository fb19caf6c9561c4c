"""Accuracy and loss of chosen answers, and what chance would give."""

import numpy as np

from xmodels.tasks.base import pictures
from xmodels.tasks.choose.answer import Choice

DRAWS_LAST = True
LISTED = 5  # questions that were answered wrongly


def scores(predictions: list, truth: list[int]) -> dict:
    """Returns accuracy, loss in nats, and the accuracy of choosing by chance."""
    given = np.array([each.probabilities[right] for each, right in zip(predictions, truth, strict=True)])
    return {
        "accuracy": float(np.mean([each.choice == right for each, right in zip(predictions, truth, strict=True)])),
        "loss": float(-np.log(np.maximum(given, 1e-30)).mean()),
        "chance": float(np.mean([1 / len(each.probabilities) for each in predictions])),
    }


def from_arrays(outputs: dict, examples: dict, labels: list[str]) -> tuple[list[Choice], list[int]]:
    """Returns what `draw` takes; the texts of choices are not among arrays."""
    rows = zip(outputs["choices"].tolist(), outputs["probabilities"], examples["choice_weights"] > 0, strict=True)
    return [Choice(place, "", row[real].tolist()) for place, row, real in rows], examples["labels"].tolist()


def draw(folder: str, predictions: list, truth: list[int], settings: dict) -> list[str]:
    """Returns how often the choice at one place is taken for that at another: a network that prefers a place is seen there."""
    count = max(len(each.probabilities) for each in predictions)
    table = np.zeros((count, count), int)
    np.add.at(table, (truth, [each.choice for each in predictions]), 1)
    names, small = pictures.fold_rare_labels([str(place) for place in range(count)], table, table.sum(axis=1))
    return pictures.write(
        folder, {"confusions": pictures.confusions(names, small, "questions by position of the choice")}
    )


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list[int], settings: dict) -> None:
    """Prints the scores, and some questions that were answered wrongly."""
    print(f"{test_file}: {len(truth):,} questions, accuracy {found['accuracy']:.4f}, loss {found['loss']:.4f}")
    print(f"  a random choice would score {found['chance']:.4f}")
    rows = zip(inputs, predictions, truth, strict=True)
    wrong = [(asked, each, right) for asked, each, right in rows if each.choice != right]
    for asked, each, right in wrong[:LISTED]:
        print(
            f"  wrong: {asked.question:.60}  chose {asked.choices[each.choice]!r:.40}, correct is {asked.choices[right]!r:.40}"
        )
