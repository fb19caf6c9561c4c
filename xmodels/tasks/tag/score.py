"""F1 of entities, as seqeval counts them (Nakayama, 2018): a span counts where its borders and its type are right."""

import numpy as np

from xmodels.tasks.base.score import score_inputs
from xmodels.tasks.tag import pictures
from xmodels.tasks.tag.read import TagSource, known_tags, read_sentences
from xmodels.tasks.tag.settings import are_spans, labels_in_bio
from xmodels.tasks.tag.words import Words, as_spans

SELECTION_METRIC, READS_SOURCE = "entity_f1", True


def evaluate(
    predictor,
    test_file: str,
    text_column: str | None,
    label_column: str | None,
    batch_size: int | None,
    plots: str | None,
) -> dict:
    """Prints and returns accuracy of words, and precision, recall and F1 of entities; arguments as in `launch/evaluate.py`.

    Words that have no piece count as `O`. With `plots`, pictures go to that folder.
    """
    columns = {"text_column": text_column, "label_column": label_column}
    columns = {name: value or predictor.columns.get(name) for name, value in columns.items()}
    sentences = read_sentences(test_file, **columns)
    known_tags(test_file, sentences, labels_in_bio(predictor.labels))
    words, tags = [Words.joined(each.words) for each in sentences], [each.tags for each in sentences]
    return score_inputs(predictor, test_file, words, tags, batch_size, plots)


def for_scores(predictions) -> list[list[str]]:
    return [each.tags for each in predictions]


def scores(predictions: list[list[str]], truth: list[list[str]]) -> dict:
    """Returns accuracy of words; entity_f1, entity_precision, entity_recall over all entities; and of each type."""
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


def from_source(outputs: dict[str, np.ndarray], source: TagSource, task) -> tuple[list[list[str]], list[list[str]]]:
    """Returns what `scores` takes, from outputs of the network, window by window; words without a piece are left out."""
    named = outputs["label_ids"]  # (N, L), or fewer where what follows is padding
    counts, labels = (source.arrays[name][:, : named.shape[1]] for name in ("label_weights", "labels"))
    names, predictions, truth, before = np.array(task.label_names, object), [], [], None
    rows = zip(named, labels, counts > 0, source.text_ids.tolist(), strict=True)
    for found, right, counted, text in rows:
        if text != before:
            predictions.append([])
            truth.append([])
        before = text
        predictions[-1] += names[found[counted]].tolist()
        truth[-1] += names[right[counted]].tolist()
    return predictions, truth


def draw(folder, predictions, truth, settings):
    return pictures.draw(folder, predictions, truth, scores(predictions, truth))


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list, settings: dict) -> None:
    """Prints the scores."""
    print(
        f"{test_file}: {len(truth):,} sentences, entity F1 {found['entity_f1']:.4f} (precision {found['entity_precision']:.4f}, "
        f"recall {found['entity_recall']:.4f}), word accuracy {found['accuracy']:.4f}"
    )
    width = max(map(len, [*found["types"], "type"]))
    print(f"  {'type':{width}}  entities  precision  recall     F1")
    for name, row in found["types"].items():
        print(f"  {name:{width}}  {row['entities']:8,}  {row['precision']:9.4f}  {row['recall']:.4f}  {row['f1']:.4f}")
