"""Reads questions whose answers stand in a text: SQuAD 1.1 and 2.0 JSON, CMRC 2018 in that form and in its own."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from data_pipelines.corpora.json_lists import is_list, read_list
from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class Question:
    """One question about one text.

    Attributes:
        answers: (text, first character in the context), the character None where the file does not say it.
        is_impossible: the context does not answer it (SQuAD 2.0).
        place: the file and the path inside its JSON.
    """

    id: str
    question: str
    context: str
    answers: list[tuple[str, int | None]]
    is_impossible: bool
    place: str


def read_squad(path: str) -> Iterator[Question]:
    """Yields all questions of a file, in order; an article, or of CMRC 2018 a paragraph, is in memory at once.

    Raises:
        DataError: the file is not JSON, or not laid out like SQuAD; names the place inside it.
    """
    if is_list(path):  # CMRC 2018 as it was first published
        for index, paragraph in enumerate(read_list(path)):
            if isinstance(paragraph, dict) and "context_text" not in paragraph:
                raise DataError(
                    f"{path}, [{index}]: expected an object with 'data', articles with 'paragraphs', each with 'context' and 'qas', "
                    "as SQuAD has them, or a list of paragraphs with 'context_text' and 'qas', as CMRC 2018. Found: "
                    f"{', '.join(paragraph)[:200]}."
                )
            yield from _paragraph(paragraph, path, f"[{index}]", "context_text", "query_text", "query_id")
        return
    for d, article in enumerate(read_list(path, "data")):
        for p, paragraph in enumerate(_get(article, "paragraphs", list, path, f"data[{d}]")):
            yield from _paragraph(paragraph, path, f"data[{d}].paragraphs[{p}]", "context", "question", "id")


def _paragraph(paragraph, path: str, where: str, context: str, question: str, id: str) -> Iterator[Question]:
    text = _get(paragraph, context, str, path, where)
    for q, asked in enumerate(_get(paragraph, "qas", list, path, where)):
        here = f"{where}.qas[{q}]"
        name = str(_get(asked, id, (str, int), path, here))
        given = _get(asked, "answers", list, path, here) if asked.get("answers") is not None else []
        answers = [_answer(answer, path, f"{here}.answers[{a}]") for a, answer in enumerate(given)]
        impossible = asked.get("is_impossible")
        if type(impossible) not in (bool, type(None)):
            raise DataError(f"{path}, {here}: 'is_impossible' must be true or false. Found: {impossible!r:.40}.")
        yield Question(name, _get(asked, question, str, path, here), text, answers, bool(impossible), f"{path}, {here}")


def _answer(answer, path: str, where: str) -> tuple[str, int | None]:
    if isinstance(answer, str):
        return answer, None
    start = _get(answer, "answer_start", int, path, where) if "answer_start" in answer else None
    return _get(answer, "text", str, path, where), start


def _get(value: Any, name: str, kind, path: str, where: str) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get(name), kind):
        found = ", ".join(value) if isinstance(value, dict) else type(value).__name__
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise DataError(
            f"{path}, {where or 'top level'}: expected {name!r} ({' or '.join(k.__name__ for k in kinds)}), as SQuAD has "
            f"it. Found: {found[:200]}."
        )
    return value[name]
