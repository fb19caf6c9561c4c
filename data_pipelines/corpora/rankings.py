"""Reads queries with candidates: tables of (query, candidate, label) whose rows stand together, or JSON lines."""

import dataclasses
import itertools
from collections.abc import Iterator

from data_pipelines.corpora.labelled import as_text, as_texts, first_of, kind_of, read_json_lines
from data_pipelines.corpora.tables import BadRow, Columns, read_table
from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class RankedList:
    """One query, its candidates, and how relevant each is, as the file writes it."""

    query: str
    candidates: list[str]
    labels: list[str]
    place: str
    id: str | None = None


def read_rankings(path: str, columns: Columns, bad_rows: list[BadRow] | None = None) -> Iterator[RankedList]:
    """All lists of a file. In a table, rows in a row with equal queries make a list.

    JSON lines hold `query`, and either `candidates` with `labels`, or `positives` (relevance 1) and `negatives` (0).

    Args:
        bad_rows: of a table, as in `read_table`.

    Raises:
        DataError: not laid out so; names the line.
    """
    if kind_of(path) not in (".jsonl", ".json"):
        table = read_table(path, columns, may_be_empty=True, bad_rows=bad_rows)
        for query, group in itertools.groupby(table, key=lambda row: row.texts[0]):
            rows = list(group)
            if len(rows[0].texts) < 2:
                raise DataError(f"{path}: has no column of candidates. Name it with --text_pair_column.")
            yield RankedList(
                query, [row.texts[1] for row in rows], [row.label for row in rows], f"{path}, line {rows[0].line}"
            )
        return
    for number, value in read_json_lines(path):
        place = f"{path}, line {number}"
        query = first_of(value, ("query", "question"), place)
        if "candidates" in value:
            candidates, labels = value["candidates"], first_of(value, ("labels", "label"), place)
        else:
            positives = first_of(value, ("positives", "positive", "candidates"), place)
            negatives = first_of(value, ("negatives", "negative"), place)
            positives, negatives = (
                as_texts(positives, f"{place}, positives"),
                as_texts(negatives, f"{place}, negatives"),
            )
            candidates = [*positives, *negatives]
            labels = [1] * len(positives) + [0] * len(negatives)
        candidates, labels = as_texts(candidates, f"{place}, candidates"), as_texts(labels, f"{place}, labels")
        if len(candidates) != len(labels):
            raise DataError(
                f"{place}: {len(candidates)} candidates and {len(labels)} labels, expected a label for each."
            )
        name = value.get("id")
        yield RankedList(
            as_text(query, f"{place}, query"),
            candidates,
            labels,
            place,
            None if name is None else str(name),
        )
