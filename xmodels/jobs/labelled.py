"""Labelled tables, and records made of them, as arrays for a network."""

import os

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.tables import Columns, Row, read_table
from data_pipelines.dataset import ArraySource, RecordSource
from data_pipelines.errors import DataError, UsageError
from data_pipelines.records import Manifest, verify
from data_pipelines.text.framing import pack_ids, pack_texts
from data_pipelines.text.labels import sort_labels
from data_pipelines.text.tokenizer import Tokenizer

BATCH = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")


def label_names(rows: list[Row]) -> list[str]:
    """The different labels, in the order of their ids."""
    return sort_labels(row.label for row in rows)


def label_ids(path: str, rows: list[Row], labels: list[str]) -> np.ndarray:
    """The number of each row's label, int32 (N,).

    Raises:
        DataError: a label that training did not have; names the file, the line and the known labels.
    """
    ids = {name: index for index, name in enumerate(labels)}
    for row in rows:
        if row.label not in ids:
            raise DataError(
                f"{path}, line {row.line}: label {row.label!r} does not occur in training. Known: {', '.join(labels[:20])}."
            )
    return np.array([ids[row.label] for row in rows], np.int32)


def labelled_source(
    path: str,
    columns: Columns,
    tokenizer: Tokenizer,
    max_sequence_length: int,
    labels: list[str] | None = None,
) -> tuple[ArraySource, list[str], int]:
    """A table, or a folder of records, as a source of batches, its labels, and the number of texts in a row.

    Args:
        labels: the known ones; None takes those of the table.
    """
    if os.path.isdir(path):
        return recorded_source(path, tokenizer, max_sequence_length, labels)
    rows = read_table(path, columns)
    labels = labels or label_names(rows)
    arrays = pack_texts([row.texts for row in rows], tokenizer, max_sequence_length)
    return ArraySource({**arrays, "labels": label_ids(path, rows, labels)}, path), labels, len(rows[0].texts)


def recorded_source(
    folder: str, tokenizer: Tokenizer, max_sequence_length: int, labels: list[str] | None = None
) -> tuple[ArraySource, list[str], int]:
    """Records of `create_finetuning_data --task=classify` as `labelled_source` gives the table they were made of.

    Raises:
        DataError: other labels, another vocabulary or tokenizer than the network has; or the records are damaged.
        UsageError: records of another task.
    """
    manifest = Manifest.read(folder)
    settings = manifest.settings
    if settings.get("task") != "classify":
        raise UsageError(
            f"{folder}: holds records for {settings.get('task', 'pretraining')}, expected those of "
            "`xmodels create_finetuning_data --task=classify`."
        )
    if settings["tokenizer"] != tokenizer.describe() or settings["vocabulary_sha256"] != tokenizer.sha256:
        raise DataError(
            f"{folder}: was tokenized otherwise than the network reads: {settings['tokenizer']} with vocabulary "
            f"{settings['vocabulary_sha256'][:8]}, the network {tokenizer.describe()} with {tokenizer.sha256[:8]}. Make the "
            "records again with --vocab_file and --do_lower_case of the network."
        )
    names, num_texts = settings["label_names"], settings["texts_per_record"]
    if labels is not None and names != labels:
        raise DataError(
            f"{folder}: has the labels {', '.join(names[:20])}, but training has {', '.join(labels[:20])}. Make the records "
            "again with --labels_from=TRAINING_RECORDS."
        )
    verify(folder, manifest, deep=True)
    source = RecordSource(folder, manifest)
    firsts, seconds, answers = [], [], []
    for serialized in tf.data.TFRecordDataset(source.paths).batch(1024):
        parsed = {name: value.numpy() for name, value in source.parse(serialized).items()}
        for ids, (a, b) in zip(parsed["token_ids"], parsed["segment_lengths"], strict=True):
            firsts.append(ids[:a].tolist())
            seconds.append(ids[a : a + b].tolist())
        answers.append(parsed["labels"])
    arrays = pack_ids(firsts, seconds if num_texts > 1 else None, tokenizer.vocabulary, max_sequence_length)
    arrays["labels"] = np.concatenate(answers).astype(np.int32)
    return ArraySource(arrays, folder), names, num_texts
