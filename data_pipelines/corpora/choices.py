"""Reads multiple-choice questions: JSON lines, C3 and DREAM JSON, ChID idiom clozes, SWAG, CSV and TSV with an answer key."""

import dataclasses
import itertools
import string
from collections.abc import Iterator
from typing import Any

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.delimited import records
from data_pipelines.corpora.delimiters import delimiter_of
from data_pipelines.corpora.json_lists import is_list, read_list
from data_pipelines.corpora.labelled import as_text, as_texts, first_of, name_of, read_json_lines
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError, UsageError

BLANK = "#idiom#"  # ChID
FIRST_ENDING = "ending0"  # by which a first line is known to be SWAG's


@dataclasses.dataclass(frozen=True)
class ChoiceQuestion:
    """A question with its choices.

    Attributes:
        context: what the question is about; empty where there is nothing.
        question: where it holds `#idiom#`, the choices fill this blank.
        answer: as the file says it: a position from 0, a letter, or the text of a choice.
        place: file and line, or file and path inside its JSON.
    """

    context: str
    question: str
    choices: list[str]
    answer: Any
    place: str
    id: str | None = None

    def answer_index(self) -> int | None:
        """Returns which choice is the answer: a number counts from 0, a letter from A; else by the text. None: it is none."""
        answer = self.answer
        if isinstance(answer, str):
            if self.choices.count(answer) == 1:
                return self.choices.index(answer)
            stripped = answer.strip()
            if len(stripped) == 1 and stripped.upper() in string.ascii_uppercase:
                answer = string.ascii_uppercase.index(stripped.upper())
            else:
                answer = _number(stripped)
        fits = isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(self.choices)
        return answer if fits else None


def read_choices(path: str, with_answers: bool = True) -> Iterator[ChoiceQuestion]:
    """Yields all questions of a file: `.jsonl`, `.json` (C3, DREAM, or JSON lines), `.csv`, `.tsv`, each also with .gz.

    Args:
        with_answers: whether JSON and SWAG must name the answer of each question; tables without names always have the column.

    Raises:
        DataError: not laid out as any of them; names the line or the place in the JSON.
        UsageError: the kind is unknown, or a column of SWAG is missing.
    """
    kind = kind_of(path)
    if kind in (".csv", ".tsv"):
        yield from _read_separated(path, kind, with_answers)
    elif kind == ".json" and is_list(path):
        yield from _read_c3(path, with_answers)
    elif kind in (".json", ".jsonl"):
        yield from _read_lines(path, with_answers)
    else:
        raise UsageError(f"{path}: unknown kind of file {kind or '(no ending)'!r}. Known: .jsonl, .json, .csv, .tsv.")


def _read_lines(path: str, with_answers: bool) -> Iterator[ChoiceQuestion]:
    for place, value in read_json_lines(path):
        choices = first_of(value, ("choices", "choice", "candidates", "options"), place)
        question = first_of(value, ("question", "content", "query"), place)
        answer = first_of(value, ("answer", "label"), place) if with_answers else None
        yield ChoiceQuestion(
            as_text(value.get("context", value.get("passage", "")), f"{place}, the context"),
            as_text(question, f"{place}, the question"), as_texts(choices, f"{place}, the choices"), answer, place,
            name_of(value),
        )  # fmt: skip


def _read_c3(path: str, with_answers: bool) -> Iterator[ChoiceQuestion]:
    """Yields [[lines of the passage], [{question, choice, answer}], id], as C3 and DREAM are."""
    for i, item in enumerate(read_list(path)):
        where = f"{path}, [{i}]"
        if not (isinstance(item, list) and len(item) >= 2 and all(isinstance(part, list) for part in item[:2])):
            raise DataError(f"{where}: expected [[lines], [questions], id], as C3 and DREAM have it.")
        for q, asked in enumerate(item[1]):
            place = f"{where}[1][{q}]"
            if not isinstance(asked, dict):
                raise DataError(f"{place}: expected an object with question, choice and answer.")
            question, choices = first_of(asked, ("question",), place), first_of(asked, ("choice",), place)
            name = f"{item[2]}-{q}" if len(item) > 2 else None
            lines = "\n".join(as_texts(item[0], f"{where}[0]"))
            answer = as_text(first_of(asked, ("answer",), place), f"{place}, the answer") if with_answers else None
            question, choices = as_text(question, f"{place}, the question"), as_texts(choices, f"{place}, the choices")
            yield ChoiceQuestion(lines, question, choices, answer, place, name)


def _read_separated(path: str, kind: str, with_answers: bool) -> Iterator[ChoiceQuestion]:
    """Yields rows with SWAG's names in the first line, or with none: question, choices, answer."""
    with open_text(path) as file:
        found = records(file, delimiter_of(kind), lambda number: f"{path}, line {number}", quoted=kind == ".csv")
        rows = ((f"{path}, line {number}", fields) for number, fields in found if fields)
        first = next(rows, None)
        if first is None:
            return
        if FIRST_ENDING in first[1]:
            yield from _endings(path, first[1], rows, with_answers)
        else:
            yield from (_with_key(place, fields) for place, fields in itertools.chain([first], rows))


def _with_key(place: str, fields: list[str]) -> ChoiceQuestion:
    """Returns question, choices, and last the letter of the answer (or its number, from 1 as in ARC's keys)."""
    if len(fields) < 4:
        raise DataError(f"{place}: {len(fields)} column(s), expected a question, two choices or more, and the answer.")
    question, *choices, answer = fields
    number = _number(answer)
    key = answer if number is None else number - 1
    return ChoiceQuestion("", question, _without_blanks(choices), key, place)


def _endings(path: str, header: list[str], rows, with_answers: bool) -> Iterator[ChoiceQuestion]:
    """Yields SWAG (Zellers et al., 2018): a sentence, the beginning of the next one, and its endings, of which `label` counts
    from 0."""
    endings = list(itertools.takewhile(header.__contains__, (f"ending{number}" for number in itertools.count())))
    known = next((names for names in (("sent1", "sent2"), ("startphrase",)) if set(names) <= set(header)), None)
    missing = {
        "sent1 and sent2, or startphrase": known is None,
        "ending1": len(endings) < 2,
        "label": with_answers and "label" not in header,
    }
    for name in (name for name, lacks in missing.items() if lacks):
        found = ", ".join(header)[:200]
        raise UsageError(f"{path}: has {FIRST_ENDING}, as SWAG has, but no column {name}. The first line has: {found}.")
    for place, fields in rows:
        if len(fields) != len(header):
            raise DataError(f"{place}: {len(fields)} column(s), the first line names {len(header)}.")
        row = dict(zip(header, fields, strict=True))
        *context, question = (row[name] for name in known)
        answer = row["label"] if with_answers else None
        number = _number(answer or "")
        choices = _without_blanks([row[name] for name in endings])
        yield ChoiceQuestion(" ".join(context), question, choices, answer if number is None else number, place)


def _number(text: str) -> int | None:
    """Returns the number that a cell writes in digits; None where it writes something else, or more than any position has."""
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _without_blanks(choices: list[str]) -> list[str]:
    """Choices without empty ones at the end: a question may have fewer than the table has columns."""
    while choices and not choices[-1].strip():
        choices = choices[:-1]
    return choices
