"""Accuracy and loss of chosen answers, and what chance would give."""

import numpy as np

LISTED = 5  # questions that were answered wrongly


def scores(predictions: list, truth: list[int]) -> dict:
    """accuracy, loss in nats, and the accuracy of choosing by chance."""
    given = np.array([each.probabilities[right] for each, right in zip(predictions, truth, strict=True)])
    return {
        "accuracy": float(np.mean([each.choice == right for each, right in zip(predictions, truth, strict=True)])),
        "loss": float(-np.log(np.maximum(given, 1e-30)).mean()),
        "chance": float(np.mean([1 / len(each.probabilities) for each in predictions])),
    }


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list[int]) -> None:
    """Prints the scores, and some questions that were answered wrongly."""
    print(f"{test_file}: {len(truth):,} questions, accuracy {found['accuracy']:.4f}, loss {found['loss']:.4f}")
    print(f"  choosing by chance would score {found['chance']:.4f}")
    rows = zip(inputs, predictions, truth, strict=True)
    wrong = [(asked, each, right) for asked, each, right in rows if each.choice != right]
    for asked, each, right in wrong[:LISTED]:
        print(
            f"  wrong: {asked.question:.60}  chose {asked.choices[each.choice]!r:.40}, right is {asked.choices[right]!r:.40}"
        )
