"""Checks paths before the work: those on another machine, and those that could not be written."""

import os
import re
from collections.abc import Iterable

from data_pipelines.errors import UsageError
from data_pipelines.text.tokenizer_settings import ASSETS

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+)://")
_MOUNTS = {"gs": "gcsfuse", "s3": "mount-s3 or s3fs", "hdfs": "its NFS gateway or fuse-dfs", "az": "blobfuse2"}
_OF_VOCABULARIES = (*ASSETS, "tokenizer.json", "tokenizer_config.json")


def check_local(**values: str | None) -> None:
    """Checks the values of flags that name files, alone or in comma-separated lists.

    Raises:
        UsageError: one is an address such as gs://bucket/folder; says how to reach it.
    """
    for name, value in values.items():
        for path in (value or "").split(","):
            if found := _SCHEME.match(path):
                scheme = found[1].lower()
                if scheme == "file":
                    how = f"Leave out {found[0].strip()}."
                else:
                    how = (
                        f"Mount it as a folder ({_MOUNTS.get(scheme, 'rclone mount')}) or copy it to a disk (fsspec, "
                        "rclone), and name that path."
                    )
                raise UsageError(f"--{name}={path.strip()}: remote paths are not supported. {how}")


def check_not_input(inputs: Iterable[str], output_dir: str | None = None, **files: str | None) -> None:
    """Refuses input that a glob took by mistake: a file that another flag names, or one in the folder of the output.

    Args:
        files: by flag the files that it names, also several, or a folder of a vocabulary.

    Raises:
        UsageError: names the file and the flag.
    """
    taken = {}
    for flag, value in files.items():
        for path in filter(None, (value or "").split(",")):
            inside = (os.path.join(path, name) for name in _OF_VOCABULARIES)
            taken |= dict.fromkeys(map(os.path.realpath, [path, *inside]), f"is --{flag}={value}")
    folder = output_dir and os.path.realpath(output_dir) + os.sep
    for path in inputs:
        found = os.path.realpath(path)
        why = taken.get(found) or (folder and found.startswith(folder) and f"lies in --output_dir={output_dir}")
        if why:
            raise UsageError(
                f"--input_file: takes {path} for text, but that {why}. Choose a pattern that leaves it out, or move one of them."
            )


def check_output(path: str | None, flag: str = "output_file", overwrite: bool = True) -> None:
    """Refuses a file that could not be written, or that exists and may not be replaced, before the work."""
    if path and os.path.exists(path) and not overwrite:
        raise UsageError(f"--{flag}={path}: exists. Choose another name or add --overwrite.")
    folder = os.path.dirname(os.path.abspath(path)) if path else "."
    if not os.path.isdir(folder):
        raise UsageError(f"--{flag}={path}: there is no folder {folder}. Make it, or choose another name.")
