"""Reads bAbI: stories of numbered sentences, with questions in between (Weston et al., 2015, arXiv 1502.05698)."""

import dataclasses
import glob
import os
import re
from collections.abc import Iterator, Sequence

from data_pipelines.corpora.text_files import read_lines
from data_pipelines.errors import DataError, UsageError

SPLITS = ("train", "valid", "test")
_TASK = re.compile(r"(qa\d+)_")


@dataclasses.dataclass(frozen=True)
class StoryQuestion:
    """One question, and the sentences of its story that stand before it.

    Attributes:
        answer: as the file writes it; several, as in tasks 8 and 19, are joined by commas and are one label.
        facts: the sentences that the answer follows from, as places in `sentences`; empty where the file names none.
        task: the beginning of the file's name, such as `qa1`; of other names the whole name.
        place: file and line.
    """

    sentences: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...]
    task: str
    place: str


def read_babi(path: str) -> Iterator[StoryQuestion]:
    """Yields all questions of a file, also gzipped. Where the numbers of its lines begin again with 1, a story begins.

    A line is `number sentence`, or `number question<TAB>answer`, with `<TAB>numbers of the lines that say so` or without.

    Raises:
        DataError: not laid out so; names the line.
    """
    task, sentences, places = task_of(path), [], {}  # places: number of the line -> place in `sentences`
    previous = 0
    for place, line in read_lines(path):
        number, text = _split_number(line, previous, place)
        if number == 1:
            sentences, places = [], {}
        previous = number
        if "\t" not in text:
            places[number] = len(sentences)
            sentences.append(text.strip())
            continue
        question, answer, *rest = (part.strip() for part in text.split("\t"))
        if not (question and answer and sentences) or len(rest) > 1:
            why = "no sentence before it" if question and answer and not rest[1:] else repr(line[:80])
            raise DataError(
                f"{place}: expected a question of a story, as `7 Where is Mary?<TAB>kitchen<TAB>4`, behind the sentences "
                f"that it is about. Found: {why}."
            )
        facts = _facts(rest[0] if rest else "", places, place)
        yield StoryQuestion(tuple(sentences), question, answer, facts, task, place)


def read_tasks(pattern: str, tasks: Sequence[int] | None = None, split: str = "train", most: int | None = None):
    """Returns the questions of several tasks, {name of the task: its questions}, in the order of their numbers.

    Args:
        pattern: a folder as bAbI is handed out in, files, or globs, parted by commas.
        tasks: the numbers of those wanted, such as (1, 2, 3); None for all that are there.
        split: of a folder, which files: "train", "valid" or "test".
        most: so many questions of each task are taken, from the first on; 1,000 of the 10,000 give the small setting.

    Raises:
        DataError: there is no such file or task, or a file holds no question.
    """
    found: dict[str, list[StoryQuestion]] = {}
    for path in task_files(pattern, tasks, split):
        questions = found.setdefault(task_of(path), [])
        questions.extend(read_babi(path))
        if not questions:
            raise DataError(f"{path}: holds no question; expected lines such as `3 Where is Mary?<TAB>kitchen<TAB>1`.")
    return {task: questions[:most] for task, questions in found.items()}


def split_off(questions: list[StoryQuestion], share: float) -> tuple[list[StoryQuestion], list[StoryQuestion]]:
    """Returns all but the last questions, and the last ones, about `share` of all; no story is cut."""
    first = len(questions) - round(share * len(questions))
    while 0 < first < len(questions):
        before = questions[first - 1].sentences
        if questions[first].sentences[: len(before)] != before:
            break
        first -= 1
    return questions[:first], questions[first:]


def task_files(pattern: str, tasks: Sequence[int] | None = None, split: str = "train") -> list[str]:
    """Returns the files of `read_tasks`, in the order of the tasks."""
    paths: list[str] = []
    for part in filter(None, (part.strip() for part in pattern.split(","))):
        inside = [f"{part}/qa*_{split}.txt", f"{part}/qa*_{split}.txt.gz"] if os.path.isdir(part) else [part]
        matches = [path for each in inside for path in glob.glob(each)]
        if not matches:
            wanted = f"a folder without files qa*_{split}.txt" if os.path.isdir(part) else "matches no file"
            raise DataError(f"{part}: {wanted}. Give the folder of bAbI, such as tasks_1-20_v1-2/en-10k, or its files.")
        paths.extend(matches)
    if not paths:
        raise UsageError("Name at least one file of bAbI, or its folder.")
    names = None if tasks is None else {f"qa{task}" for task in tasks}
    there = {task_of(path) for path in paths}
    if names is not None and names - there:
        raise DataError(
            f"{pattern}: no {split} file of {', '.join(sorted(names - there, key=_order))}. There are "
            f"{', '.join(sorted(there, key=_order))}."
        )
    wanted = {path for path in paths if names is None or task_of(path) in names}
    return sorted(wanted, key=lambda path: (_order(task_of(path)), path))


def task_numbers(text: str | None) -> list[int] | None:
    """Returns the value of --tasks, `1,2,3`; None for all.

    Raises:
        UsageError: it is not a list of numbers.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--tasks={text}: expected numbers of tasks, such as 1,2,3. Leave it out for all.")
    return [int(part) for part in parts]


def task_of(path: str) -> str:
    """Returns the task that the name of a file tells: `qa1_single-supporting-fact_train.txt` -> `qa1`."""
    name = os.path.basename(path)
    match = _TASK.match(name)
    return match[1] if match else name.split(".")[0]


def _order(task: str) -> tuple[int, str]:
    return (int(task[2:]), "") if re.fullmatch(r"qa\d+", task) else (10**6, task)


def _split_number(line: str, previous: int, place: str) -> tuple[int, str]:
    """Returns the number of a line and what stands behind it."""
    number, _, text = line.strip(" ").partition(" ")
    if not number.isascii() or not number.isdigit() or not text.strip():
        raise DataError(f"{place}: expected a number, a blank and a sentence. Found: {line[:80]!r}.")
    if int(number) not in (1, previous + 1):
        raise DataError(
            f"{place}: has number {number}, expected {previous + 1}, or 1 where a new story begins. Is a line missing?"
        )
    return int(number), text


def _facts(text: str, places: dict[int, int], place: str) -> tuple[int, ...]:
    found = []
    for part in text.split():
        if not part.isdigit() or int(part) not in places:
            raise DataError(
                f"{place}: names line {part!r} as a supporting fact, but no sentence of this story before the question has "
                "that number."
            )
        found.append(places[int(part)])
    return tuple(found)
