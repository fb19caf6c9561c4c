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


def check_there(name: str) -> None:
    """Raises a CheckpointError where what a name means is not there; says that nothing is downloaded. Of `tf1:` the name is a prefix
    of files, which its reader looks for."""
    kind, path = split(name)
    if not kind:
        check_folder(path)
    elif kind != "tf1" and not os.path.exists(path):
        fetch = ""
        if kind == "hf" and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path):
            folder = path.rpartition("/")[2]
            fetch = f" Where it can be reached, `hf download {path} --local-dir {folder}` makes a folder; then name hf:{folder}."
        raise CheckpointError(
            f"{name}: no such folder on this machine, and nothing is downloaded. Name a folder that holds the checkpoint.{fetch}"
        )


def check_folder(path: str) -> None:
    """Raises a CheckpointError unless a plain path is a folder."""
    if not os.path.isdir(path):
        raise CheckpointError(
            f"{path}: no such checkpoint, and nothing is downloaded. Name a run or model folder, hf:FOLDER, tf1:PREFIX, "
            "keras_hub:FOLDER, fairseq:FOLDER or paddle:FOLDER."
        )
