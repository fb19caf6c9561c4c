"""Labelled tables, and records made of them, as arrays for a network."""

import os

import numpy as np
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.grouping import Grouping, buckets, padding_share
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.corpora.tables import Columns, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import label_ids, label_names
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.source import RecordSource
from data_pipelines.records.verification import verify
from data_pipelines.text.frames import BERT, Frame
from data_pipelines.text.framing import Orders, pack_columns, pack_texts
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.training.watching.progress import say


def labelled_source(
    path: str,
    columns: Columns,
    tokenizer: Tokenizer,
    max_sequence_length: int,
    labels: list[str] | None = None,
    frame: Frame = BERT,
    orders: Orders | None = None,
) -> tuple[ArraySource, list[str], int]:
    """A table, or a folder of records, as a source of batches, its labels, and the number of texts in a row.

    Args:
        labels: the known ones; None takes those of the table.
        frame: where the special tokens of the network stand.
        orders: in which it reads the texts of a row; see `pack_texts`.
    """
    if os.path.isdir(path):
        return recorded_source(path, tokenizer, max_sequence_length, labels, frame, orders)
    rows = read_table(path, columns)
    check_pairs(path, len(rows[0].texts), orders)
    labels = labels or label_names(rows)
    arrays = pack_texts([row.texts for row in rows], tokenizer, max_sequence_length, frame, orders)
    return ArraySource({**arrays, "labels": label_ids(path, rows, labels)}, path), labels, len(rows[0].texts)


def check_pairs(path: str, num_texts: int, orders: Orders | None) -> None:
    """Raises a UsageError where texts are to be read in several orders, but there is one in a row only."""
    if orders and num_texts < 2:
        raise UsageError(
            f"{path}: has one text in a row, but --task=similarity compares two. Name the column of the second with "
            "--text_pair_column, or take --task=classify."
        )


def check_recorded(folder: str, manifest: Manifest, tokenizer: Tokenizer, labels: list[str] | None) -> list[str]:
    """The labels of records, which must be those of the training (None: whatever they are) and tokenized for the network.

    Raises:
        DataError, UsageError: as `recorded_source`.
    """
    settings = manifest.settings
    if settings.task != "classify":
        raise UsageError(
            f"{folder}: holds records for {settings.task or 'pretraining'}, expected those of "
            "`xmodels create_finetuning_data --task=classify`."
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


def recorded_source(
    folder: str,
    tokenizer: Tokenizer,
    max_sequence_length: int,
    labels: list[str] | None = None,
    frame: Frame = BERT,
    orders: Orders | None = None,
) -> tuple[ArraySource, list[str], int]:
    """Records of `create_finetuning_data --task=classify` as `labelled_source` gives the table they were made of.

    Raises:
        DataError: other labels, another vocabulary or tokenizer than the network has; or the records are damaged.
        UsageError: records of another task.
    """
    manifest = Manifest.read(folder)
    names = check_recorded(folder, manifest, tokenizer, labels)
    num_texts = manifest.settings.texts_per_record
    check_pairs(folder, num_texts, orders)
    verify(folder, manifest, deep=True)
    source = RecordSource(folder, manifest)
    firsts, seconds, answers = [], [], []
    for serialized in tf.data.TFRecordDataset(source.paths).batch(1024):
        parsed = {name: value.numpy() for name, value in source.parse(serialized).items()}
        for ids, (a, b) in zip(parsed["token_ids"], parsed["segment_lengths"], strict=True):
            firsts.append(ids[:a].tolist())
            seconds.append(ids[a : a + b].tolist())
        answers.append(parsed["labels"])
    columns = [firsts, seconds][:num_texts]
    arrays = pack_columns(columns, tokenizer.vocabulary, max_sequence_length, frame, orders)
    arrays["labels"] = np.concatenate(answers).astype(np.int32)
    return ArraySource(arrays, folder), names, num_texts


def choose_batches(options, source: ArraySource, replicas: int) -> tuple[Grouping | None, int, float]:
    """Batches by length, where asked for; how many rows one has at least, and how many make an epoch.

    Says how much padding grouping saves.
    """
    if not options.length_buckets and not options.tokens_per_batch:
        return None, options.train_batch_size, source.num_examples / options.train_batch_size
    if source.arrays["padding_mask"].ndim > 2:
        flag = "tokens_per_batch" if options.tokens_per_batch else "length_buckets"
        raise UsageError(
            f"--{flag}: an example of --task={options.task} is several sequences, which share a batch whatever their lengths. "
            "Leave it out."
        )
    lengths, width = source.arrays["padding_mask"].sum(axis=1), source.arrays["padding_mask"].shape[1]
    grouping, rows = buckets(options.length_buckets or "auto", lengths, width), options.train_batch_size
    if options.tokens_per_batch:
        shares = replicas * options.gradient_accumulation_steps
        grouping = token_buckets(grouping.lengths, options.tokens_per_batch, shares)
        rows = grouping.sizes[-1]
    before, after = (padding_share(lengths, g, width, rows) for g in (None, grouping))
    say(f"{grouping}: padding {before:.1%} -> {after:.1%}.")
    return grouping, rows, len(grouping.groups(tf.constant(lengths, tf.int64), rows))  # the last ones are filled up
