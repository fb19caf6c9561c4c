"""How to read each file of a corpus: one format for all, one by the ending of a name, or one by a pattern."""

import dataclasses
import fnmatch

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.reading import FORMATS
from data_pipelines.errors import UsageError

ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tsv": "tsv", ".csv": "csv", ".parquet": "parquet"}
AUTO, VERBATIM = "auto", "verbatim"
PREPARED = "tfds:"  # how the names of prepared data sets begin


@dataclasses.dataclass(frozen=True)
class Layout:
    """What `--input_format` says, or what was found for it.

    Attributes:
        otherwise: the format of files that no rule is for. "auto:FORMAT" goes by the ending of a name, and takes FORMAT
            where that does not tell.
        rules: a pattern and a format; the first that matches a file counts.
    """

    otherwise: str = AUTO
    rules: tuple[tuple[str, str], ...] = ()

    def of(self, path: str) -> str:
        """Returns the format of a file."""
        rule = self.rule_of(path)
        return format_of(path, self.otherwise if rule is None else self.rules[rule][1])

    def rule_of(self, path: str) -> int | None:
        """Returns the number of the rule for a file."""
        return next((i for i, (pattern, _) in enumerate(self.rules) if _matches(path, pattern)), None)


def _matches(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"*/{pattern}")


def format_of(path: str, given: str) -> str:
    """Returns how to read a file: as the ending of its name says, if it says so, while `given` begins with "auto:"."""
    if path.startswith(PREPARED):
        return "tfds"
    if not given.startswith("auto:"):
        return given
    return ENDINGS.get(kind_of(path), given[5:])


def parse(value: str) -> Layout:
    """Returns the layout of a flag such as "text" or "*.txt=text,wiki/*=documents,auto".

    Raises:
        UsageError: a format is unknown, or two are given for what no pattern is for.
    """
    rules, others = [], []
    for part in filter(None, (part.strip() for part in value.split(","))):
        pattern, sign, name = part.rpartition("=")
        if name not in FORMATS:
            raise UsageError(f"--input_format={part}: unknown. Known: {', '.join(FORMATS)}.")
        if sign and not pattern:
            raise UsageError(f"--input_format={part}: no pattern before the =. Write one, such as *.txt{part}.")
        if sign:
            rules.append((pattern, name))
        else:
            others.append(name)
    if len(others) > 1:
        raise UsageError(
            f"--input_format={value}: {' and '.join(others)} without a pattern. Give one for all files, or patterns such as "
            "*.txt=text,wiki/*=documents."
        )
    if VERBATIM in [*others, *(name for _, name in rules)] and value != VERBATIM:
        raise UsageError(f"--input_format={value}: {VERBATIM} is for all files. Give it alone, or leave it out.")
    if others == [VERBATIM]:
        return Layout(f"auto:{VERBATIM}")
    return Layout(others[0] if others else AUTO, tuple(rules))
