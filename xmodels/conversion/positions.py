"""More positions than a checkpoint has: rows are copied, as the code of UniLM does for texts of 768 tokens (Dong et al., 2019)."""

import dataclasses
import re

import numpy as np

from xmodels.models.checkpoint import Checkpoint

TABLE = re.compile(r"^backbone\..*position(\.table)?\.embeddings$")


def extend_positions(loaded: Checkpoint, most: int) -> Checkpoint:
    """Returns the checkpoint with at least `most` positions. Behind its last row each table of positions begins again with the
    first one.

    Rows that stand for no position, such as the first two of RoBERTa and BART, stay in front and are not copied. Networks without
    such a table get the number alone. A checkpoint that has so many positions stays as it is.
    """
    before = loaded.config.longest
    if loaded.config.reads(most):
        return loaded
    values = {
        name: _extend(value, before, most) if TABLE.match(name) else value for name, value in loaded.values.items()
    }
    config = dataclasses.replace(loaded.config, max_sequence_length=most)
    warning = f"its {before} positions are extended to {most}; the new ones begin as copies of the first"
    return dataclasses.replace(loaded, config=config, values=values, warnings=(*loaded.warnings, warning))


def _extend(table: np.ndarray, before: int, most: int) -> np.ndarray:
    first = len(table) - before  # rows of no position
    return np.concatenate([table[:first], table[first + np.arange(most) % before]])
