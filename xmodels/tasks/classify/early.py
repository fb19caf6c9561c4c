"""What `finetune --task=classify` checks before TensorFlow is imported: the tables, unless they are large."""

import os

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table

LARGEST_TABLE = 1 << 23  # bytes; a larger one is read only once, by the job


def check(options) -> None:
    """Reads the tables of the flags.

    Raises:
        DataError: a table cannot be used.
    """
    columns = Columns(options.text_column, options.text_pair_column, options.label_column)
    for path in (options.train_file, options.eval_file, options.test_file):
        if path and not os.path.isdir(path) and not _is_large(path):
            read_table(path, columns, bad_rows=[] if options.on_bad_row == "skip" else None)


def _is_large(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > LARGEST_TABLE
