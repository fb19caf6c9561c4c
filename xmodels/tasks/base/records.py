"""Reads records of `create_finetuning_data` as arrays."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError, UsageError
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.shards import check_lengths
from data_pipelines.records.source import RecordSource
from data_pipelines.records.verification import verify
from data_pipelines.text.kinds import tokenizer_of_records
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import Vocabulary

TOGETHER = 1024  # records that are parsed in one batch


def check_recorded(
    folder: str, manifest: Manifest, task: str, tokenizer: Tokenizer, labels: list[str] | None
) -> list[str]:
    """Checks that records fit a task, a tokenizer and the labels of training. Returns their labels.

    Args:
        folder: of the records.
        manifest: of the records.
        task: of `create_finetuning_data`.
        tokenizer: of the network.
        labels: of the training; None to accept any.

    Raises:
        DataError: the records have other labels, or were made with another vocabulary or tokenizer.
        UsageError: the records are of another task.
    """
    settings = manifest.settings
    if settings.task != task:
        raise UsageError(
            f"{folder}: holds records for {settings.task or 'pretraining'}, expected those of "
            f"`xmodels create_finetuning_data --task={task}`."
        )
    if settings.tokenizer != tokenizer.describe() or settings.vocabulary_sha256 not in (
        tokenizer.sha256,
        tokenizer.extends,
    ):
        raise DataError(
            f"{folder}: was tokenized otherwise than the network reads: {settings.tokenizer} with vocabulary "
            f"{settings.vocabulary_sha256[:8]}, the network {tokenizer.describe()} with {tokenizer.sha256[:8]}. Make the "
            "records again with --vocab_file and --do_lower_case of the network."
        )
    names = settings.label_names
    if labels is not None and names != labels:
        raise DataError(
            f"{folder}: has the labels {', '.join(names[:20])}, but training has {', '.join(labels[:20])}. Make the records "
            "again with --labels_from=TRAINING_RECORDS."
        )
    return names


def recorded_batches(folder: str, manifest: Manifest) -> Iterator[dict[str, np.ndarray]]:
    """Yields the records of a folder in batches; variable lengths are padded with zeros. Raises a DataError if they are damaged.

    Of records with characters `token_ids` are objects that know the words which the vocabulary lacks.
    """
    verify(folder, manifest, deep=True)
    source = RecordSource(folder, manifest)
    spelled = "character_ids" in manifest.features
    vocabulary = tokenizer_of_records(folder, manifest.settings).vocabulary if spelled else None
    for path in source.paths:
        check_lengths(path)
    for serialized in tf.data.TFRecordDataset(source.paths).batch(TOGETHER):
        parsed = {name: value.numpy() for name, value in source.parse(serialized).items()}
        if vocabulary is not None:
            parsed["token_ids"] = _with_words(parsed, vocabulary)
        yield parsed


def _with_words(parsed: dict[str, np.ndarray], vocabulary: Vocabulary) -> np.ndarray:
    """Returns the ids (N, L) as the tokenizer gave them, as objects."""
    found = parsed["token_ids"].astype(object)
    for row, ids in enumerate(parsed["token_ids"]):
        found[row] = vocabulary.words_of(ids, {name: parsed[name][row] for name in vocabulary.features})
    return found


def recorded_columns(folder: str, manifest: Manifest, num_texts: int) -> tuple[list[list[list[int]]], np.ndarray]:
    """Returns the ids of the first texts of all records, and if `num_texts` is 2 of the second; and their `labels`, (N, ...)."""
    firsts, seconds, answers = [], [], []
    for parsed in recorded_batches(folder, manifest):
        for ids, (a, b) in zip(parsed["token_ids"], parsed["segment_lengths"], strict=True):
            firsts.append(ids[:a].tolist())
            seconds.append(ids[a : a + b].tolist())
        answers.append(parsed["labels"])
    return [firsts, seconds][:num_texts], np.concatenate(answers)
