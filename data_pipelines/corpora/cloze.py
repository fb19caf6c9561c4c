"""Readers of questions that a language model answers by probabilities: the last word of a passage, and one of several
words for a gap.

LAMBADA (Paperno et al., 2016): plain text with a passage a line, or JSON lines with the field `text`. The Children's Book Test
(Hill et al., 2016): its own files, or JSON lines.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.labelled import first_of, read_json_lines
from data_pipelines.corpora.text_files import read_lines
from data_pipelines.errors import DataError

GAP = "XXXXX"
_MARK = "\ue000"  # stands for the gap while the text around it is changed
_NUMBERED = re.compile(r"(\d+) (.*)")
JSON = (".jsonl", ".json", ".ndjson")
LAST_LINE = 21  # of an example of the Children's Book Test: the question
Change = Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class Question:
    """A context, and ways to go on from it.

    Attributes:
        context: may be empty.
        options: each begins with the blank that parts it from the context, if there is one.
        answer: which of them is right.
        place: file and line, for messages.
    """

    context: str
    options: list[str]
    answer: int
    place: str


def last_words(path: str, change: Change = lambda text: text) -> Iterator[Question]:
    """Passages whose last word is to be found.

    Args:
        change: is given each passage first, such as a detokenizer.

    Raises:
        DataError: a passage of fewer than two words, or no field `text`; names the line.
    """
    for place, text in _passages(path):
        context, _, word = change(text.strip()).rpartition(" ")
        if not context.strip():
            raise DataError(
                f"{place}: expected a passage, the last word of which is asked for. Found: {text.strip():.60}"
            )
        yield Question(context.rstrip(), [f" {word}"], 0, place)


def _passages(path: str) -> Iterator[tuple[str, str]]:
    if kind_of(path) not in JSON:
        yield from read_lines(path)
        return
    for place, value in read_json_lines(path):
        yield place, _text(first_of(value, ("text",), place), "text", place)


def choices(path: str, change: Change = lambda text: text) -> Iterator[Question]:
    """Sentences with a gap and candidates for it.

    JSON lines have `question` with XXXXX in it, `candidates` (or `choices`), `answer`, a candidate or its number from 0, and
    perhaps `context`.

    Raises:
        DataError: no gap, fewer than two candidates, or an answer that is none of them; names the line.
    """
    read = _json_choices if kind_of(path) in JSON else _childrens_book
    for place, context, question, candidates, answer in read(path):
        gaps, listing = f"{context} {question}".count(GAP), ", ".join(candidates)[:100] or "none"
        if len(candidates) < 2 or len(set(candidates)) < len(candidates):
            raise DataError(f"{place}: expected several different candidates. Found: {listing}.")
        if answer not in candidates:
            raise DataError(f"{place}: the answer {answer!r:.40} is none of the candidates: {listing}.")
        if gaps != 1:
            raise DataError(f"{place}: expected one gap {GAP} in the question. Found {gaps}: {question:.80}")
        text = change(f"{context} {question}".strip().replace(GAP, _MARK))
        before, after = text.split(_MARK)
        context = before.rstrip()
        blank = before[len(context) :]  # or a line break
        options = [f"{blank}{candidate}{after}" for candidate in candidates]
        yield Question(context, options, candidates.index(answer), place)


def _childrens_book(path: str) -> Iterator[tuple[str, str, str, list[str], str]]:
    """Yields twenty numbered sentences; the twenty-first is question TAB answer TAB TAB candidates, parted by `|`."""
    context: list[str] = []
    for place, line in read_lines(path):
        match = _NUMBERED.match(line)
        if not match or int(match[1]) != len(context) + 1:
            raise DataError(
                f"{place}: expected sentence {len(context) + 1} of {LAST_LINE} with its number before it, as the "
                f"Children's Book Test has it, or a file *.jsonl. Found: {line.strip():.60}"
            )
        if len(context) + 1 < LAST_LINE:
            context.append(match[2].strip())
            continue
        fields = [field.strip() for field in match[2].split("\t") if field.strip()]
        if len(fields) != 3:
            raise DataError(
                f"{place}: expected question, answer and candidates, parted by tabs. Found {len(fields)} field(s)."
            )
        yield place, " ".join(context), fields[0], [c for c in fields[2].split("|") if c], fields[1]
        context = []
    if context:
        raise DataError(f"{path}: ends after sentence {len(context)} of {LAST_LINE}; is the file cut?")


def _json_choices(path: str) -> Iterator[tuple[str, str, str, list[str], str]]:
    for place, value in read_json_lines(path):
        question = _text(first_of(value, ("question",), place), "question", place)
        context = _text(value.get("context", ""), "context", place)
        candidates = first_of(value, ("candidates", "choices", "options"), place)
        if not isinstance(candidates, list) or not all(isinstance(c, str) for c in candidates):
            raise DataError(f"{place}: `candidates` must be a list of texts. Found: {candidates!r:.60}.")
        answer = first_of(value, ("answer",), place)
        if type(answer) is int and 0 <= answer < len(candidates):
            answer = candidates[answer]
        yield place, context, question, candidates, str(answer)


def _text(value, name: str, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: `{name}` must be text. Found: {value!r:.60}.")
    return value
