"""The fields of single files of a corpus, which stand in braces behind a name or glob: `a.jsonl{text=body}`."""

import glob
import os
import re
from collections.abc import Mapping

from data_pipelines.errors import UsageError

_IN_BRACES = re.compile(r"(.+)\{([^{}]*=[^{}]*)\}")
FIELDS = {"text": "text_field", "target": "target_field"}  # what stands in the braces -> the flag
PREPARED = "tfds:"  # how the names of prepared data sets begin
WITH_FIELDS = "jsonl", "tsv", "csv", "parquet", "parallel", "dialogue", "tfds", "verbatim"  # formats


def split_fields(pattern: str, flag: str = "--input_file") -> tuple[str, dict[str, str]]:
    """Returns a name or glob, and what stands behind it in braces: `a.jsonl{text=body}` -> ("a.jsonl", {"text_field": "body"}).

    A file whose name holds braces itself is that file.

    Raises:
        UsageError: something else stands in the braces.
    """
    found = _IN_BRACES.fullmatch(pattern)
    if not found or os.path.lexists(pattern):
        return pattern, {}
    given = [each.partition("=") for each in found[2].split(",")]
    names = [name.strip() for name, _, _ in given]
    if set(names) - FIELDS.keys() or len(set(names)) < len(names) or not all(value.strip() for _, _, value in given):
        raise UsageError(
            f"{flag}={pattern}: expected the fields of text in the braces, {{text=NAME}} or {{text=NAME,target=NAME}}."
        )
    return found[1], {FIELDS[name]: value.strip() for name, (_, _, value) in zip(names, given, strict=True)}


def fields_of_files(given: list[tuple[str, dict[str, str]]], layout) -> dict[str, dict[str, str]]:
    """Returns the fields of each file that has its own.

    Args:
        given: names or globs with their fields.
        layout: says how each file is read.

    Raises:
        UsageError: a file has two, or is of a format without fields.
    """
    found: dict[str, dict[str, str]] = {}
    for pattern, fields in given:
        if not fields:
            continue
        for path in [pattern] if pattern.startswith(PREPARED) else glob.iglob(pattern, recursive=True):
            if found.setdefault(path, fields) != fields:
                raise UsageError(
                    f"--input_file: {path} has two fields, {_shown(found[path])} and {_shown(fields)}. Give it one."
                )
            if layout.of(path) not in WITH_FIELDS:
                raise UsageError(
                    f"--input_file={pattern}{_shown(fields)}: {path} is read as {layout.of(path)}, which has no fields."
                )
    return found


def _shown(fields: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{name.removesuffix('_field')}={value}" for name, value in fields.items()) + "}"
