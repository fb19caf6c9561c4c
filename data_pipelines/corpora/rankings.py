"""Reads queries with candidates: tables of (query, candidate, label), or JSON lines."""

import dataclasses
from collections.abc import Iterable, Iterator

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.labelled import as_text, as_texts, first_of, name_of, read_json_lines
from data_pipelines.corpora.tables import BadRow, Row, read_table
from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class RankedList:
    """One query, its candidates, and how relevant each is, as the file writes it."""

    query: str
    candidates: list[str]
    labels: list[str]
    place: str
    id: str | None = None


class Relevance:
    """What the labels of candidates say: numbers as they stand, or names, one of which means that a candidate is relevant.

    Args:
        relevant_label: the name; None where labels are numbers.
    """

    def __init__(self, relevant_label: str | None):
        self.relevant_label = relevant_label
        self._seen: set[str] = set()

    def of(self, labels: list[str]) -> list[str]:
        """Returns labels as relevances: 1 for the name, 0 for others; an empty one stays empty, as nobody knows what it says."""
        if self.relevant_label is None:
            return labels
        names = [label.strip() for label in labels]
        self._seen.update(names)
        return [name and str(int(name == self.relevant_label)) for name in names]

    def check(self, path: str) -> None:
        """Raises a DataError where labels were read, and none was the name."""
        if self._seen and self.relevant_label not in self._seen:
            found = ", ".join(f"{name:.40}" for name in sorted(self._seen)[:5])
            raise DataError(
                f"{path}: no candidate has the label --relevant_label={self.relevant_label}. Found: {found}"
                f"{' and others' if len(self._seen) > 5 else ''}. Name one of these; another column goes by --label_column."
            )


def read_rankings(
    path: str, columns: Columns, bad_rows: list[BadRow] | None = None, relevant_label: str | None = None
) -> Iterator[RankedList]:
    """Yields all lists of a file. In a table, rows with equal queries make a list, wherever they stand.

    JSON lines hold `query`, and either `candidates` with `labels`, or `positives` (relevance 1) and `negatives` (0).

    Args:
        bad_rows: of a table, as in `read_table`.
        relevant_label: the label of relevant candidates, where labels are names; they become 1 and 0.

    Raises:
        DataError: not laid out so; names the line. Or no candidate has `relevant_label`.
    """
    relevance = Relevance(relevant_label)
    yield from _read(path, columns, bad_rows, relevance)
    relevance.check(path)


def _read(path: str, columns: Columns, bad_rows: list[BadRow] | None, relevance: Relevance) -> Iterator[RankedList]:
    if kind_of(path) not in (".jsonl", ".json"):
        table = read_table(path, columns, may_be_empty=True, bad_rows=bad_rows)
        for query, rows in by_query(path, table):
            labels = relevance.of([row.label for row in rows])
            yield RankedList(query, [row.texts[1] for row in rows], labels, f"{path}, line {rows[0].line}")
        return
    for place, value in read_json_lines(path):
        query = first_of(value, ("query", "question"), place)
        if "candidates" in value:
            labels = as_texts(first_of(value, ("labels", "label"), place), f"{place}, labels")
            candidates, labels = as_texts(value["candidates"], f"{place}, candidates"), relevance.of(labels)
        else:
            positives = first_of(value, ("positives", "positive", "candidates"), place)
            negatives = first_of(value, ("negatives", "negative"), place)
            positives, negatives = (
                as_texts(positives, f"{place}, positives"),
                as_texts(negatives, f"{place}, negatives"),
            )
            candidates = [*positives, *negatives]
            labels = ["1"] * len(positives) + ["0"] * len(negatives)
        if len(candidates) != len(labels):
            raise DataError(
                f"{place}: {len(candidates)} candidates and {len(labels)} labels, expected a label for each."
            )
        yield RankedList(as_text(query, f"{place}, query"), candidates, labels, place, name_of(value))


def by_query(path: str, rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yields the rows of each query, in the order in which queries occur first.

    Raises:
        DataError: there is no second text.
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        if len(row.texts) < 2:
            raise DataError(f"{path}: has no column of candidates. Name it with --text_pair_column.")
        found.setdefault(row.texts[0], []).append(row)
    yield from found.items()
