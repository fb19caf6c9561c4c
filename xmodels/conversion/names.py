"""Names of checkpoints: `hf:FOLDER`, `tf1:PREFIX`, `keras_hub:FOLDER`, `fairseq:FOLDER`, `paddle:FOLDER`, those of
`conversion.sources`, or a plain path for ours.

Imports nothing heavy.
"""

import os
import re

from data_pipelines.errors import CheckpointError, UsageError
from xmodels.conversion import find

FORMATS = ("hf", "tf1", "keras_hub", "fairseq", "paddle", *find.names())  # beside ours; fairseq's is read only


def split(name: str) -> tuple[str, str]:
    """Returns `hf:path` -> ("hf", "path"); a plain path -> ("", path). Raises a UsageError about an unknown prefix."""
    kind, colon, path = name.partition(":")
    if colon and kind in FORMATS:
        return kind, path
    if colon and re.fullmatch(r"\w+", kind) and not os.path.exists(name):
        known = ", ".join(f"{each}:" for each in FORMATS)
        raise UsageError(f"{name}: unknown format {kind}:. Known: {known}; a folder of ours has no prefix.")
    return "", name


def is_foreign(name: str) -> bool:
    """Returns whether a name means a checkpoint of another format."""
    return bool(split(name)[0])


def check_folder(path: str) -> None:
    """Raises a CheckpointError unless a plain path is a folder."""
    if not os.path.isdir(path):
        raise CheckpointError(
            f"{path}: no such checkpoint. Name a run or model folder, hf:FOLDER, tf1:PREFIX, keras_hub:FOLDER, fairseq:FOLDER or "
            "paddle:FOLDER."
        )
