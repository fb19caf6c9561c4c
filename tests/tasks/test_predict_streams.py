"""`predict` reads tables and lines as it writes answers to a file, whatever the task; a bad row leaves no file."""

import contextlib
import csv
import itertools
import json

import pytest

from data_pipelines import strict_json
from data_pipelines.corpora import choices, json_lists, tables, text_files, unanswered_stories
from data_pipelines.errors import DataError
from data_pipelines.escaping import for_cell
from xmodels.jobs.predict.run import stream_predictions
from xmodels.jobs.predict.write import write
from xmodels.tasks.base import answer
from xmodels.tasks.base.answer import STREAM_SIZE, Question
from xmodels.tasks.base.find import load_part

ROWS = 3 * STREAM_SIZE
TABLES = {  # task -> name of the file, its first line, a row, and a row that cannot be read
    "classify": ("rows.tsv", "text\n", "text {}\n", "a\tb\n"),
    "similarity": ("rows.jsonl", "", '{{"text": "{}", "text_pair": "b"}}\n', '{"text": "a"}\n'),
    "san": ("rows.csv", "premise,hypothesis\n", '"text\n{}",b\n', '"a\n'),
    "fast_classify": ("rows.tsv", "content\n", "text {}\n", "a\tb\n"),
    "multi_label": ("rows.jsonl", "", '{{"text": "{}"}}\n', "{\n"),
    "regress": ("rows.csv", "text,text_pair\n", "text {},b\n", 'a,"b"c\n'),
    "tag": ("rows.csv", "text\n", "text {}\n", "a,b\n"),
    "siamese": ("rows.tsv", "text\ttext_pair\n", "text {}\tb\n", "a\n"),
    "rank": ("rows.jsonl", "", '{{"query": "{}", "candidates": ["one", "other"]}}\n', '{"query": "a"}\n'),
    "choose": ("rows.jsonl", "", '{{"question": "{}", "choices": ["a", "b"]}}\n', '{"question": "a"}\n'),
}


class Answers:
    """A predictor of a task without a network; its answers are the inputs."""

    answers, max_sequence_length, stream_size = "answers", 16, STREAM_SIZE

    def __init__(self, task):
        found = object.__new__(load_part(task, "answer").Predictor)
        found.columns = {}
        self.inputs = found.inputs
        self.predict_stream = lambda inputs, batch_size: list(inputs)
        self.plain_rows = lambda predictions, delimiter: None
        self.record = lambda asked, prediction: {"answer": str(prediction)}


@pytest.fixture
def lines_read(monkeypatch):
    """The number of lines that were read of any file."""
    count = [0]

    def counted(file):
        for line in file:
            count[0] += 1
            yield line

    @contextlib.contextmanager
    def open_counted(path):
        with open(path, encoding="utf-8", newline="") as file:
            yield counted(file)

    for module in (tables, text_files, choices, answer, unanswered_stories):
        monkeypatch.setattr(module, "open_text", open_counted)
    return count


@pytest.mark.parametrize("task", TABLES)
def test_a_table_is_read_as_it_is_answered(task, lines_read, tmp_path):
    name, header, row, bad = TABLES[task]
    path = tmp_path / name
    path.write_text(header + "".join(row.format(number) for number in range(ROWS)) + bad, "utf-8")
    predictor = Answers(task)
    inputs = predictor.inputs(Question(input_file=str(path)))
    assert lines_read[0] == 0 and iter(inputs) is inputs
    parts = stream_predictions(predictor, inputs, 32, "a file")
    _, first = next(parts)
    per_input = row.count("\n")
    assert len(first) == STREAM_SIZE and "0" in str(first[0]) and str(STREAM_SIZE - 1) in str(first[-1])
    assert STREAM_SIZE * per_input <= lines_read[0] <= STREAM_SIZE * per_input + 2
    last = ROWS * per_input + header.count("\n") + 1
    with pytest.raises(DataError, match=rf"{name}, line {last}\b"):
        list(parts)


LISTS = {  # task -> the beginning of a JSON file, an item, its end with a fault, and what is said of that
    "answer_span": (
        '{"version": "1", "data": [', '{"paragraphs": [{"context": "c", "qas": [{"id": "NUMBER", "question": "q"}]}]}', "1]}",
        rf"data\[{ROWS}\]: expected 'paragraphs'",
    ),
    "choose": ("[", '[["two"], [{"question": "q", "choice": ["a", "b"]}], "NUMBER"]', "1]", rf"\[{ROWS}\]: expected"),
}  # fmt: skip


@pytest.mark.parametrize("task", LISTS)
def test_a_list_of_json_is_read_as_it_is_answered(task, tmp_path, monkeypatch):
    begin, item, end, fault = LISTS[task]
    path, taken = tmp_path / "asked.json", []
    items = (item.replace("NUMBER", str(number)) + ",\n" for number in range(ROWS))
    path.write_text(begin + "".join(items) + end, "utf-8")
    loads = strict_json.loads
    monkeypatch.setattr(strict_json, "loads", lambda text: taken.append(text) or loads(text))
    monkeypatch.setattr(json_lists, "CHARACTERS", 100)
    predictor = Answers(task)
    parts = stream_predictions(predictor, predictor.inputs(Question(input_file=str(path))), 32, "a file")
    assert len(next(parts)[1]) == STREAM_SIZE
    assert STREAM_SIZE <= len(taken) <= STREAM_SIZE + 5 and max(map(len, taken)) < 100
    with pytest.raises(DataError, match=fault):
        list(parts)


def test_stories_are_read_as_they_are_answered(lines_read, tmp_path):
    (tmp_path / "asked.txt").write_text("Ann sat.\nWho sat?\n\n" * ROWS + "Who?\n", "utf-8")
    inputs = Answers("answer_story").inputs(Question(input_file=str(tmp_path / "asked.txt")))
    assert next(inputs) == next(inputs) == (("Ann sat.",), "Who sat?") and lines_read[0] == 5
    with pytest.raises(DataError, match=f"line {3 * ROWS + 1}: no sentence of a story"):
        list(inputs)


def test_a_bad_row_leaves_no_file(tmp_path):
    path, out = tmp_path / "rows.tsv", tmp_path / "out.jsonl"
    predictor = Answers("classify")

    def answered():
        write(
            str(out),
            predictor,
            stream_predictions(predictor, predictor.inputs(Question(input_file=str(path))), 32, "a file"),
        )

    rows = "".join(f"text {number}\n" for number in range(ROWS))
    path.write_text(f"text\n{rows}a\tb\n", "utf-8")
    with pytest.raises(DataError, match=f"rows.tsv, line {ROWS + 2}: 2 columns"):
        answered()
    assert [each.name for each in tmp_path.iterdir()] == ["rows.tsv"]
    path.write_text("text\n" + rows, "utf-8")
    answered()
    found = [json.loads(line)["answer"] for line in out.read_text("utf-8").splitlines()]
    assert found == [f"('text {number}',)" for number in range(ROWS)]


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_plain_rows_are_written_as_all_others(ending, tmp_path):
    cells = ["a", "0.25", "好", "", "a b", "-1", "=1+1", "a,b", "a\tb", 'say "a"', "a\nb", "\x1b[0m", "1.", ".5", "é_"]
    rows = [[one, other] for one in cells for other in cells]
    predictor = Answers("classify")
    predictor.header, predictor.row = lambda: ["=label", "n"], lambda asked, prediction: prediction
    out = tmp_path / f"out.{ending}"
    write(str(out), predictor, [(rows, rows)])
    with open(out, encoding="utf-8", newline="") as file:
        found = list(csv.reader(file, delimiter="\t" if ending == "tsv" else ","))
    assert found == [["'=label", "n"], *([for_cell(cell) for cell in row] for row in rows)]
    assert out.read_bytes().splitlines()[2] == b"a%b0.25" % (b"\t" if ending == "tsv" else b",")


@pytest.mark.parametrize("task", TABLES)
def test_a_table_without_rows_is_an_error(task, tmp_path):
    name, header, _, _ = TABLES[task]
    (tmp_path / name).write_text(header, "utf-8")
    inputs = Answers(task).inputs(Question(input_file=str(tmp_path / name)))
    with pytest.raises(DataError, match=rf"{name}: holds no (rows|questions|lists)"):
        list(inputs)


def test_lines_to_tag_are_read_as_they_are_answered(lines_read, tmp_path):
    (tmp_path / "lines.txt").write_text("one\n\n" + "two\n" * ROWS, "utf-8")
    inputs = Answers("tag").inputs(Question(input_file=str(tmp_path / "lines.txt")))
    assert list(itertools.islice(inputs, 3)) == ["one", None, "two"] and lines_read[0] == 3
