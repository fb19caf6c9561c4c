"""What exports of a run answer beside its network, as a part of its report."""

import contextlib
import html
import os
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from data_pipelines.files import write_json
from xmodels.runs import page

FILE = "exports.json"  # of a run folder
BATCH = 32  # texts of a batch that is timed
COLUMNS = (  # a key of a row, its title, and how its number is written
    ("megabytes", "MB", ".1f"), ("milliseconds", "ms a text", ".2f"), ("batched", f"ms a text, {BATCH} together", ".2f"),
    ("difference", "largest difference", ".2g"), ("same", "same answers", ".2%"), ("score", "score", ".4f"),
    ("lost", "points lost", ".2f"),
)  # fmt: skip


def add(folder: str, found: Mapping[str, Any]) -> None:
    """Puts a comparison into the file of a run folder: rows of the same name and file are replaced."""
    path, kept = os.path.join(folder, FILE), []
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):  # there is none yet, or it is cut
        kept = [dict(each) for each in strict_json.read(path)]
    same = next((each for each in kept if _key(each) == _key(found)), None)
    if same is None:
        kept.append(dict(found))
    else:
        rows = {row["name"]: row for row in same["rows"]} | {row["name"]: row for row in found["rows"]}
        same["rows"] = list(rows.values())
    write_json(path, kept)


def _key(found: Mapping[str, Any]) -> tuple:
    return tuple(found.get(name) for name in ("file", "num_rows", "metric", "threads"))


def section(folder: str) -> str:
    """Returns a table for each file by which exports were compared; nothing where there is none, or the file is cut."""
    try:
        return "".join(map(_table, strict_json.read(os.path.join(folder, FILE))))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""


def table(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of the table of a comparison."""
    head = ["", *(title for _, title, _ in COLUMNS[:-2]), found["metric"], COLUMNS[-1][1]]
    return head, [[row["name"], *(_cell(row[name], form) for name, _, form in COLUMNS)] for row in found["rows"]]


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else f"{value + 0.0:{form}}"


def _table(found: Mapping[str, Any]) -> str:
    head, rows = table(found)
    text = f"{found['num_rows']:,} rows of {html.escape(str(found['file']))}, {found['threads']} processor(s)"
    return f"<p>{text}</p>{page.table(head, rows)}"
