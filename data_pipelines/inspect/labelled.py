"""Shows records of labelled data: tokens with their tags, answers in brackets, choices and lists line by line."""

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.finetuning.command import summary
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import tokenizer_of_records


def inspect_labelled(data_dir: str, manifest: Manifest, num_examples: int) -> None:
    """Prints what the records hold, and the first of them."""
    print(summary(manifest, data_dir))
    source = RecordSource(data_dir, manifest)
    tokens = tokenizer_of_records(data_dir, manifest.settings).vocabulary.tokens
    for serialized in tf.data.TFRecordDataset(source.paths).take(num_examples).batch(1):
        record = {name: value.numpy()[0] for name, value in source.parse(serialized).items()}
        _check(record, manifest.settings.task, data_dir, len(tokens), len(manifest.settings.label_names or ()))
        print(f"\n{render(record, manifest.settings.task, tokens, manifest.settings.label_names)}")


def _check(record: dict[str, np.ndarray], task: str, data_dir: str, num_tokens: int, num_labels: int) -> None:
    """Raises a DataError where ids, lengths, labels or places point at nothing."""
    bounds = {"token_ids": num_tokens, "target_ids": num_tokens}
    bounds |= dict.fromkeys(("start_positions", "end_positions"), record["token_ids"].shape[-1])
    if num_labels:  # several labels of a text are 1 at their places
        bounds["labels"] = 2 if task == "multi_label" else num_labels
    for name, bound in bounds.items():
        if name in record and record[name].size and not 0 <= record[name].min() <= record[name].max() < bound:
            raise DataError(
                f"{data_dir}: {name} of a record hold {record[name].max()}, where there are {bound}. The vocabulary or the labels are "
                "those of other records, or the record is damaged: --verify tells. Make the records again."
            )
    if (
        record["segment_lengths"].min() < 0
        or record["segment_lengths"].sum(axis=-1).max() > record["token_ids"].shape[-1]
    ):
        raise DataError(f"{data_dir}: the lengths of a record exceed its text: it is damaged. Make the records again.")


def render(record: dict[str, np.ndarray], task: str, tokens: list[str], labels: list[str]) -> str:
    """One record as text.

    Args:
        record: its features; those of free length may be padded.
        tokens: the vocabulary.
        labels: the names of the labels, where they have any.
    """
    ids, lengths = record["token_ids"], record["segment_lengths"]
    if task == "answer_story":
        *sentences, asked = [
            _words(row[:length], tokens) for row, length in zip(ids, lengths[:, 0], strict=True) if length
        ]
        return "\n".join(
            [*(f"    {each}" for each in sentences), f"  ? {asked}", f"  [{labels[int(record['labels'])]}]"]
        )
    if ids.ndim == 2:
        return "\n".join(
            f"{_mark(record, task, row)} {_pair(ids[row], lengths[row], tokens)}"
            for row in range(len(ids))
            if lengths[row].any()
        )
    if task == "translate":
        return f"{_words(ids[: lengths[0]], tokens)}\n  → {_words(record['target_ids'][: lengths[1]], tokens)}"
    if task == "multi_label":
        names = [labels[place] for place in np.flatnonzero(record["labels"])]
        return f"[{' | '.join(names)}] {_pair(ids, lengths, tokens)}"
    if task in ("classify", "regress"):
        label = labels[int(record["labels"])] if labels else f"{record['labels']:g}"
        return f"[{label}] {_pair(ids, lengths, tokens)}"
    shown = [tokens[i] for i in ids[: lengths.sum()]]
    if task == "tag":
        for place in np.flatnonzero(record["label_weights"][: len(shown)]):
            shown[place] += f"/{labels[record['labels'][place]]}"
        return " ".join(shown)
    if record["has_answer"]:
        first, last = record["start_positions"], record["end_positions"]
        shown[first], shown[last] = f"【{shown[first]}", f"{shown[last] if last > first else '【' + shown[last]}】"
    return " ".join([*shown[: lengths[0]], "|", *shown[lengths[0] :]])


def _mark(record, task: str, row: int) -> str:
    if task == "rank":
        return f"  {record['labels'][row]:g}"
    if task == "siamese":
        return ("   ", "  +", "  -")[row]
    return "  *" if row == record["labels"] else "  -"


def _words(ids, tokens: list[str]) -> str:
    return " ".join(tokens[i] for i in ids)


def _pair(ids, lengths, tokens: list[str]) -> str:
    first, second = _words(ids[: lengths[0]], tokens), _words(ids[lengths[0] : lengths.sum()], tokens)
    return f"{first} | {second}" if lengths[1] else first
