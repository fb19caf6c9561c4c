"""Labelled tables, and records made of them, as arrays for a network."""

import os

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import label_ids, label_names
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.frames import BERT, Frame
from data_pipelines.text.framing import Orders, pack_columns, pack_texts
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.base.records import check_recorded, recorded_columns

TASK = "classify"  # of the records


def labelled_source(
    path: str,
    columns: Columns,
    tokenizer: Tokenizer,
    max_sequence_length: int,
    labels: list[str] | None = None,
    frame: Frame = BERT,
    orders: Orders | None = None,
    bad_rows: list[BadRow] | None = None,
) -> tuple[ArraySource, list[str], int]:
    """Returns a table, or a folder of records, as a source of batches, its labels, and the number of texts in a row.

    Args:
        labels: the known ones; None takes those of the table.
        frame: where the special tokens of the network stand.
        orders: in which it reads the texts of a row; see `pack_texts`.
        bad_rows: as in `read_table`.
    """
    if os.path.isdir(path):
        return recorded_source(path, tokenizer, max_sequence_length, labels, frame, orders)
    rows = read_table(path, columns, bad_rows=bad_rows)
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
    names = check_recorded(folder, manifest, TASK, tokenizer, labels)
    num_texts = manifest.settings.texts_per_record
    check_pairs(folder, num_texts, orders)
    columns, found = recorded_columns(folder, manifest, num_texts)
    arrays = pack_columns(columns, tokenizer.vocabulary, max_sequence_length, frame, orders)
    arrays["labels"] = found.astype(np.int32)
    return ArraySource(arrays, folder), names, num_texts
