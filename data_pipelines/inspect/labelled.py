"""Shows records of labelled data: tokens with their tags, answers in brackets, choices and lists line by line."""

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.finetuning.command import summary
from data_pipelines.finetuning.listing import task_class
from data_pipelines.finetuning.task import Task
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.shards import check_lengths
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import tokenizer_of_records


def inspect_labelled(data_dir: str, manifest: Manifest, num_examples: int) -> None:
    """Prints what the records hold, and the first of them."""
    print(summary(manifest, data_dir))
    task = task_class(manifest.settings.task)
    source = RecordSource(data_dir, manifest)
    tokens = tokenizer_of_records(data_dir, manifest.settings).vocabulary.tokens
    for path in source.paths:
        check_lengths(path, num_examples)
    for serialized in tf.data.TFRecordDataset(source.paths).take(num_examples).batch(1):
        record = {name: value.numpy()[0] for name, value in source.parse(serialized).items()}
        _check(record, task, data_dir, len(tokens), len(manifest.settings.label_names or ()))
        print(f"\n{task.render(record, tokens, manifest.settings.label_names)}")


def _check(record: dict[str, np.ndarray], task: type[Task], data_dir: str, num_tokens: int, num_labels: int) -> None:
    """Raises a DataError where ids, lengths, labels or places point at nothing."""
    bounds = {"token_ids": num_tokens, "target_ids": num_tokens}
    bounds |= dict.fromkeys(("start_positions", "end_positions"), record["token_ids"].shape[-1])
    if num_labels:
        bounds["labels"] = task.label_bound(num_labels)
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
