"""Writes the tables of the pages from the pages of what stands in them: `python -m tests.helpers.listings`.

A page of `docs` holds its rows in a comment, so that a new system, task, layout, mixer or decision only adds its own files:

    <!-- listing
    - systems: [gpt, gpt2]
      title: GPT, GPT-2
      en: the next token
      zh: 下一个词元
      checkpoints: Hugging Face
    -->

A table stands between the comments `<!-- begin NAME -->` and `<!-- end NAME -->` of another page.
"""

import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from data_pipelines import layout
from xmodels import systems
from xmodels.interfaces import mixers

ROOT = pathlib.Path(__file__).parents[2]
COMMENT = re.compile(r"<!-- listing\n(.*?)-->", re.DOTALL)
TABLE = re.compile(r"(<!-- begin ([^\n]+?) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
KEYS = {  # what a row must hold, by the key that names its kind
    "systems": {"title", "en", "zh"},
    "tasks": {"en", "zh", "learns_from", "predict", "serves"},
    "layouts": {"holds", "for"},
    "mixers": {"sees", "cost", "cache", "paper"},
    "decision": set(),
}
OPTIONAL = {"checkpoints", "checkpoints_zh", "label"}
Row = dict[str, Any]


def rows(kind: str, root: pathlib.Path = ROOT) -> list[Row]:
    """Returns the rows of a kind on all pages, each with `page`, the path from the root."""
    found = [row for page in sorted((root / "docs").rglob("*.md")) for row in rows_of(page, root) if kind in row]
    return sorted(found, key=lambda row: (row.get("title") or str(row[kind])).lower())


def rows_of(page: pathlib.Path, root: pathlib.Path = ROOT) -> Iterator[Row]:
    """Yields the rows in the comments of a page. Raises a ValueError that names page and key where one is missing or unknown."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(root).as_posix()
    for comment in COMMENT.findall(text):
        for row in yaml.safe_load(comment):
            kind = next((kind for kind in KEYS if kind in row), None)
            if kind is None:
                raise ValueError(
                    f"{name}: a row of a listing has one of {', '.join(KEYS)}. Received: {', '.join(row)}."
                )
            given = row.keys() - {kind} - OPTIONAL
            if given != KEYS[kind]:
                raise ValueError(
                    f"{name}: a row with `{kind}` has {', '.join(sorted(KEYS[kind])) or 'nothing else'}. Received: {', '.join(row)}."
                )
            heading = re.search(r"^# (.+)$", text, re.MULTILINE)
            yield {"heading": heading[1] if heading else name, **row, "page": name}


def systems_table(link: Callable[[str], str], language: str = "en") -> str:
    """Returns the table of systems: name and page, what it learns from, whose checkpoints it exchanges, values of --system."""
    head = {
        "en": "| System | What it learns from | Checkpoints it can exchange | `--system=` |",
        "zh": "| 系统 | 学习目标或训练数据 | 可互转的检查点 | `--system=` |",
    }[language]
    lines = [head, "| --- | --- | --- | --- |"]
    for row in rows("systems"):
        checkpoints = (language == "zh" and row.get("checkpoints_zh")) or row.get("checkpoints", "")
        names = ", ".join(f"`{name}`" for name in row["systems"])
        lines.append(f"| [{row['title']}]({link(row['page'])}) | {row[language]} | {checkpoints} | {names} |")
    return "\n".join(lines) + "\n"


def tasks_table(link: Callable[[str], str], language: str = "en") -> str:
    """Returns the table of tasks: names, what they predict, and the page."""
    lines = [{"en": "| `--task=` | What it predicts |", "zh": "| `--task=` | 预测什么 |"}[language], "| --- | --- |"]
    for row in rows("tasks"):
        names = ", ".join(f"[`{name}`]({link(row['page'])})" for name in row["tasks"])
        lines.append(f"| {names} | {row[language]} |")
    return "\n".join(lines) + "\n"


def inputs_table(link: Callable[[str], str]) -> str:
    """Returns the table of what tasks read and give: files, `predict`, the exported SavedModel."""
    lines = ["| task | learns from | `predict` | `export_model`, `serving_default` |", "| --- | --- | --- | --- |"]
    for row in rows("tasks"):
        names = ", ".join(f"[`{name}`]({link(row['page'])})" for name in row["tasks"])
        lines.append(f"| {names} | {row['learns_from']} | {row['predict']} | {row['serves']} |")
    return "\n".join(lines) + "\n"


def layouts_table(link: Callable[[str], str]) -> str:
    """Returns the table of the layouts of records: values of --packing, what a record holds, and for which systems it is."""
    lines = ["| `--packing` | a record holds | label | for |", "| --- | --- | --- | --- |"]
    for row in rows("layouts"):
        names = ", ".join(f"`{name}`" for name in row["layouts"])
        lines.append(f"| {names} | {row['holds']} | {row.get('label', '')} | [{row['for']}]({link(row['page'])}) |")
    return "\n".join(lines) + "\n"


def mixers_table(link: Callable[[str], str]) -> str:
    """Returns the table of mixers: values of --mixer, what a token sees, and what it costs."""
    lines = ["| `--mixer` | what a token sees | time and memory over L tokens | cache of decoding | paper |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for row in rows("mixers"):
        names = ", ".join(f"[`{name}`]({link(row['page'])})" for name in row["mixers"])
        lines.append(f"| {names} | {row['sees']} | {row['cost']} | {row['cache']} | {row['paper']} |")
    return "\n".join(lines) + "\n"


def decisions_list(link: Callable[[str], str], group: str) -> str:
    """Returns the list of the decisions of a group."""
    found = sorted(
        (row for row in rows("decision") if row["decision"] == group), key=lambda row: row["heading"].lower()
    )
    return "".join(f"- [{row['heading']}]({link(row['page'])})\n" for row in found)


TABLES: dict[str, Callable[..., str]] = {
    "systems": systems_table,
    "tasks": tasks_table,
    "inputs": inputs_table,
    "layouts": layouts_table,
    "mixers": mixers_table,
    "decisions": decisions_list,
}


def filled(page: pathlib.Path) -> str:
    """Returns the text of a page with its tables made anew."""
    folder = page.parent

    def link(target: str) -> str:
        return os.path.relpath(ROOT / target, folder).replace(os.sep, "/")

    def table(found: re.Match[str]) -> str:
        name, _, argument = found[2].partition(" ")
        return found[1] + TABLES[name](link, *([argument] if argument else [])) + found[3]

    return TABLE.sub(table, page.read_text(encoding="utf-8"))


def pages() -> list[pathlib.Path]:
    """Returns the pages that hold a table."""
    everywhere = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in everywhere if TABLE.search(page.read_text(encoding="utf-8")))


def listed(kind: str) -> list[str]:
    """Returns the names that the rows of a kind have, sorted."""
    return sorted(name for row in rows(kind) for name in row[kind])


def expected(kind: str) -> list[str]:
    """Returns the names that the folder listing of a kind has, sorted."""
    if kind == "tasks":
        folder = ROOT / "xmodels/tasks"
        return sorted(path.parent.name for path in folder.glob("*/task.py") if path.parent.name != "base")
    return sorted({"systems": systems.names, "layouts": layout.names, "mixers": mixers.summaries}[kind]())


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page), encoding="utf-8")
        print(page.relative_to(ROOT))
