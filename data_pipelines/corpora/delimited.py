"""Reads the rows of tables whose columns are parted by a character: with quotes, as CSV, or without."""

import collections
import csv
from collections.abc import Callable, Iterable, Iterator

from data_pipelines.errors import DataError

LONGEST_FIELD = 1_000_000


def raise_refusal(place: str, found: str) -> None:
    """Raises a DataError that names a row that cannot be used."""
    raise DataError(f"{place}: {found}.")


def records(
    lines: Iterable[str],
    delimiter: str,
    place: Callable[[int], str],
    refuse: Callable[[str, str], None] = raise_refusal,
    longest_field: int = LONGEST_FIELD,
    quoted: bool | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of its first line and the fields of each row; behind a row that is refused the next line begins one.

    Args:
        quoted: whether fields may stand in quotes; None: where commas part them.
    """
    csv.field_size_limit(longest_field)
    quoted = delimiter == "," if quoted is None else quoted
    return (_quoted if quoted else _parted)(lines, delimiter, place, refuse)


def _parted(lines, delimiter, place, refuse) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table without quotes: all that stands between two delimiters belongs to a field."""
    for number, line in enumerate(lines, 1):
        fields = line.split(delimiter) if (line := line.rstrip("\r\n")) else []
        if max(map(len, fields), default=0) > csv.field_size_limit():
            refuse(place(number), f"a field holds more than {csv.field_size_limit():,} characters")
        else:
            yield number, fields


def _quoted(lines, delimiter, place, refuse) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table whose fields may stand in quotes, and hold line breaks then."""
    source, taken, again = iter(lines), [], collections.deque()

    def feed():
        while again or (line := next(source, None)) is not None:
            taken.append(again.popleft() if again else line)
            yield taken[-1]

    def reader():
        return csv.reader(feed(), delimiter=delimiter, strict=True)

    rows, number = reader(), 1
    while True:
        taken.clear()
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            refuse(place(number), _quotes(str(error)))
            again.extendleft(reversed(taken[1:]))
            rows, number = reader(), number + 1
            continue
        yield number, fields
        number += len(taken)


def _quotes(error: str) -> str:
    """Returns what is wrong with the quotes of a row of CSV."""
    meanings = {
        "new-line character": "a carriage return (CR) stands where no line ends; end lines with LF or CRLF",
        "field larger": f"a field holds more than {csv.field_size_limit():,} characters",
        "unexpected end of data": "a quote opens in this row that nothing closes",
        "expected after": "text stands behind a closing quote, or a quote opens in this row that is closed in another",
    }
    found = next((meaning for known, meaning in meanings.items() if known in error), "cannot be read")
    if "quote" not in found:
        return found
    return (
        f"{found} ({error}). A field with quotes or line breaks stands in quotes, and a quote inside of it is doubled"
    )
