"""Finds the columns of text, second text and label in the header of a table, or by their positions."""

import dataclasses
import difflib
import itertools

from data_pipelines.corpora import delimiters
from data_pipelines.errors import UsageError

TEXT_NAMES = ("text", "sentence", "text_a", "sentence1", "premise", "question", "content")
PAIR_NAMES = ("text_pair", "text_b", "sentence2", "hypothesis")
LABEL_NAMES = ("label", "labels", "class", "category", "gold_label")
# What further columns of tables are often called: such a first row is a header, though its names are not looked for.
OTHER_NAMES = frozenset(
    "id idx index guid uid qid pid title body review comment tweet message document doc query passage answer context query_id "
    "sentiment target score rating polarity stars topic intent emotion similarity relevance split source date author lang".split()
)
SEPARATORS = (  # what may stand in the only name of a header -> how it is called, and what helps
    (",", "commas", "rename it to *.csv"), ("\t", "tabs", "rename it to *.tsv"),
    (";", "semicolons", "give --delimiter=semicolon, or part its columns by tabs and name it *.tsv"),
    ("|", "bars", "give --delimiter=pipe, or part its columns by tabs and name it *.tsv"),
)  # fmt: skip
FLAGS = ("--text_column", "--text_pair_column", "--label_column")


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns to read: names, or positions counted from 0 (then the file has no header line).

    Attributes:
        needs_pair: a table without a second text is an error.
    """

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    needs_pair: bool = False

    @property
    def by_position(self) -> bool:
        given = [name for name in (self.text, self.text_pair, self.label) if name is not None]
        return bool(given) and all(name.isdigit() for name in given)


def find_columns(header: list[str], columns: Columns, with_labels: bool | None, path: str) -> list[int | None]:
    """Returns the positions of text, second text and label among the names of a header.

    Raises:
        UsageError: a column is missing, stands twice, or it is not clear which one is meant.
    """
    second = " --text_pair_column=1" if columns.text_pair is not None or columns.needs_pair else ""
    second = " --label_column=1" if with_labels else second
    unnamed = columns.needs_pair and columns.text is None and columns.text_pair is None

    def position(given: str | None, usual: tuple[str, ...], flag: str, needed: bool) -> int | None:
        names = [given] if given is not None else [name for name in usual if name in header]
        if names and names[0] in header:
            if header.count(names[0]) > 1:
                raise UsageError(
                    f"{path}: {header.count(names[0])} columns are called {names[0]!r}. Rename all but one, or take another by {flag}."
                )
            return header.index(names[0])
        if needed or given is not None:
            _check_separator(header, path)
            lowered = {name.lower(): name for name in header}
            near = difflib.get_close_matches((given or "").lower(), lowered, 1, 0.7)
            hint = f" Did you mean {lowered[near[0]]}?" if near else ""
            named = (
                "the two columns with --text_column and --text_pair_column" if unnamed else f"the column with {flag}"
            )
            raise UsageError(
                f"{path}: no column {given or ' or '.join(usual)!r}.{hint} The first line has: {', '.join(header)[:200]}. "
                f"Name {named}, or give positions counted from 0 for a file without a header line, "
                f"such as --text_column=0{second}."
            )
        return None

    text = position(columns.text, TEXT_NAMES, "--text_column", True)
    pair = position(columns.text_pair, PAIR_NAMES, "--text_pair_column", columns.needs_pair)
    usual = [name for name in TEXT_NAMES if name in header]
    if with_labels and columns.text is None and pair is None and len(usual) > 1:
        raise UsageError(
            f"{path}: has several columns with usual names of texts, {' and '.join(usual)}. For one of them give --text_column="
            f"{usual[0]}, for two --text_column={usual[-1]} --text_pair_column={usual[0]}."
        )
    required = bool(with_labels)
    label = None if with_labels is False else position(columns.label, LABEL_NAMES, "--label_column", required)
    check_different([text, pair, label], header, path)
    return [text, pair, label]


def check_no_header(fields: list[str], wanted: list[int | None], place: str) -> None:
    """Raises a UsageError where the first row of a file that is read by position names its columns: two cells or more, all of them
    usual names of columns, and those of text and label among them."""
    cells = [field.strip() for field in fields]
    known = OTHER_NAMES.union(TEXT_NAMES, PAIR_NAMES, LABEL_NAMES)
    lowered = [cell.lower() for cell in cells]
    asked = [i for i in wanted if i is not None and i < len(cells)]
    usual = known.issuperset(lowered[i] for i in asked)
    alone = all(cells.count(cells[i]) == 1 for i in asked)  # else only positions can tell them apart
    certain = len(asked) > 1 or known.issuperset(filter(None, lowered))
    if asked and usual and alone and certain and len(cells) > 1:
        named = [f"{flag}={fields[i].strip()}" for flag, i in zip(FLAGS, wanted, strict=True) if i in asked]
        raise UsageError(
            f"{place}: {' and '.join(repr(cells[i]) for i in asked)} look like names of columns, and positions are for files without "
            f"a header line. Give {' '.join(named)}, or take the line out."
        )


def _check_separator(header: list[str], path: str) -> None:
    """Raises a UsageError where the only name of a header looks like several, parted otherwise than the ending says."""
    for separator, name, mend in SEPARATORS:
        if len(header) == 1 and separator in header[0]:
            told = "--delimiter does" if delimiters.is_given() else "its ending does"
            raise UsageError(
                f"{path}: its columns are parted by {name} ({header[0]:.60}), which {told} not say; {mend}."
            )


def check_different(positions: list[int | None], names, path: str) -> None:
    """Raises a UsageError where one column would be read as two things."""
    flags = [(p, flag) for p, flag in zip(positions, FLAGS, strict=True) if p is not None]
    for (first, flag), (second, other) in itertools.combinations(flags, 2):
        if first == second:
            raise UsageError(
                f"{path}: {flag} and {other} are the same column ({names[first]}). Name another with {other}."
            )
