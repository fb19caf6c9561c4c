"""Compares the files of a folder of records with its manifest."""

import os

from data_pipelines.errors import DataError
from data_pipelines.files import file_sha256
from data_pipelines.records.manifest import Manifest


def damage(folder: str, manifest: Manifest, deep: bool = False, progress=lambda num_bytes: None) -> dict[str, str]:
    """Compares every shard with the manifest: its size, and its SHA-256 when `deep`.

    Returns:
        What is wrong, by the name of the shard, for each that is missing, cut, or changed.
    """
    problems = {}
    for shard in manifest.shards:
        path = os.path.join(folder, shard.name)
        if not os.path.isfile(path):
            problems[shard.name] = f"{path}: {'no regular file' if os.path.lexists(path) else 'missing'}"
        elif (size := os.path.getsize(path)) != shard.bytes:
            problems[shard.name] = f"{path}: {size:,} bytes, the manifest says {shard.bytes:,} (cut or overwritten)"
        elif deep and file_sha256(path, progress) != shard.sha256:
            problems[shard.name] = f"{path}: contents changed (SHA-256 differs from the manifest)"
    return problems


def verify(folder: str, manifest: Manifest, deep: bool = False, progress=lambda num_bytes: None) -> None:
    """Raises a DataError that lists each shard in which `damage` finds something."""
    problems = list(damage(folder, manifest, deep, progress).values())
    if problems:
        listed = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise DataError(f"{listed}. Copy the shards again, or make them anew with create_pretraining_data --overwrite.")
    if not manifest.num_examples:
        raise DataError(f"{folder}: holds no examples. Make the records again, from files with text.")
