"""F1 of entities, as seqeval counts them (Nakayama, 2018): a span counts where its borders and its type are right."""

import numpy as np

from xmodels.tasks.base.score import predict
from xmodels.tasks.tag.read import known_tags, read_sentences
from xmodels.tasks.tag.words import Words, are_spans, as_spans

DECISIVE = "entity_f1"


def evaluate(
    predictor, test_file: str, text_column: str | None, label_column: str | None, batch_size: int | None
) -> dict:
    """Prints and returns accuracy of words, and precision, recall and F1 of entities; arguments as in `launch/evaluate.py`."""
    columns = {"text_column": text_column, "label_column": label_column}
    columns = {name: value or predictor.columns.get(name) for name, value in columns.items()}
    sentences = read_sentences(test_file, **columns)
    known_tags(test_file, sentences, list(predictor.labels))
    predictions = predict(predictor, [Words.joined(sentence.words) for sentence in sentences], batch_size or 32)
    found = scores([each.tags for each in predictions], [sentence.tags for sentence in sentences])
    report(test_file, found, len(sentences))
    return found


def scores(predictions: list[list[str]], truth: list[list[str]]) -> dict:
    """accuracy of words; entity_f1, entity_precision, entity_recall over all entities; and of each type."""
    from seqeval.metrics import accuracy_score, classification_report

    spans = are_spans({tag for tags in truth for tag in tags})
    predicted, right = ([as_spans(tags, spans) for tags in rows] for rows in (predictions, truth))
    table = classification_report(right, predicted, output_dict=True, zero_division=0)
    averages = {name: table.pop(f"{name} avg") for name in ("micro", "macro", "weighted")}
    types = {
        kind: {"precision": float(row["precision"]), "recall": float(row["recall"]), "f1": float(row["f1-score"]),
               "entities": int(row["support"])}
        for kind, row in table.items()
    }  # fmt: skip
    return {
        "accuracy": float(accuracy_score(right, predicted)),
        "entity_f1": float(averages["micro"]["f1-score"]),
        "entity_precision": float(averages["micro"]["precision"]),
        "entity_recall": float(averages["micro"]["recall"]),
        "types": types,
    }


def from_arrays(outputs: dict[str, np.ndarray], examples: dict[str, np.ndarray], labels: list[str]) -> tuple:
    """What `scores` takes, from outputs of the network and the examples of a fine-tuning; words that were cut are left out."""
    names, opens = np.array(labels), examples["label_weights"] > 0  # (N, L)
    rows = list(zip(outputs["label_ids"], examples["labels"], opens, strict=True))
    predictions = [names[found[counts]].tolist() for found, _, counts in rows]
    return predictions, [names[right[counts]].tolist() for _, right, counts in rows]


def report(test_file: str, found: dict, count: int) -> None:
    """Prints the scores."""
    print(
        f"{test_file}: {count:,} sentences, entity F1 {found['entity_f1']:.4f} (precision {found['entity_precision']:.4f}, "
        f"recall {found['entity_recall']:.4f}), accuracy of words {found['accuracy']:.4f}"
    )
    width = max(map(len, [*found["types"], "type"]))
    print(f"  {'type':{width}}  entities  precision  recall     F1")
    for name, row in found["types"].items():
        print(f"  {name:{width}}  {row['entities']:8,}  {row['precision']:9.4f}  {row['recall']:.4f}  {row['f1']:.4f}")
