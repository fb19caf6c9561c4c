"""The files that a flag names: lists, globs, weights."""

import glob
import os
import re
import stat
from array import array

from data_pipelines.corpora.source_fields import split_fields
from data_pipelines.errors import DataError, UsageError

_WEIGHT = re.compile(r"(.+):(\d+(?:\.\d*)?|\.\d+)")


def split_patterns(patterns: str) -> list[str]:
    """Returns the names or globs of a comma-separated list. A comma in braces belongs to its name."""
    parts = re.split(r",(?![^{}]*\})", patterns) if "{" in patterns else patterns.split(",")
    return [part.strip() for part in parts if part.strip()]


def split_sources(patterns: str) -> list[tuple[str, float]]:
    """Returns the sources of a mixture, `wiki/*.txt:0.7,news/*.gz:0.3`, or all files as one source of weight 1.

    Raises:
        UsageError: some patterns have weights and others not, a weight is 0, or nothing is named.
    """
    parts = split_patterns(patterns)
    if not parts:
        raise UsageError("--input_file: name at least one text file, such as --input_file=corpus/*.txt.")
    found = [_WEIGHT.fullmatch(part) for part in parts]
    if not any(found):
        return [(",".join(parts), 1.0)]
    if bare := [part for part, match in zip(parts, found, strict=True) if not match]:
        raise UsageError(f"--input_file: {bare[0]} has no weight, others have. Give each one, as in {bare[0]}:0.5.")
    sources = [(match[1], float(match[2])) for match in found]
    if zero := [pattern for pattern, weight in sources if weight == 0]:
        raise UsageError(f"--input_file: {zero[0]} has weight 0. Leave it out, or give it a share.")
    return sources


def expand(patterns: str, flag: str = "--input_file") -> list[str]:
    """Returns the files that a comma-separated list of names or globs matches, sorted, each once.

    Raises:
        DataError: a pattern matches no file.
    """
    return expand_with_sizes(patterns, flag)[0]


def expand_with_sizes(patterns: str, flag: str = "--input_file") -> tuple[list[str], array]:
    """Returns the files as `expand` gives them, and their sizes. Looks at each file once, opens none."""
    sizes: dict[str, int] = {}
    for pattern in split_patterns(patterns):
        pattern, fields = split_fields(pattern, flag)
        if fields:
            raise UsageError(
                f"{flag}={pattern}{{…}}: fields in braces are for raw text. Name columns by --text_column and its like."
            )
        matches = 0
        for path in glob.iglob(pattern, recursive=True):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                sizes[path] = status.st_size
                matches += 1
        if not matches:
            hint = f" It is a folder; for all files in it write {pattern.rstrip('/')}/**." * os.path.isdir(pattern)
            raise DataError(f"{flag}={pattern}: matches no file.{hint}")
    paths = sorted(sizes)
    if not paths:
        raise UsageError(f"{flag}: name at least one text file, such as {flag}=corpus/*.txt.")
    return paths, array("q", (sizes[path] for path in paths))
