"""Labels and texts that somebody else wrote do nothing where they are shown."""

import csv
import io
import json
import types

import pytest

from data_pipelines.escaping import TerminalStream, for_code_span, for_json_line, for_spreadsheet, for_terminal
from tests.helpers.invocation import invoke
from xmodels.runs.folder import write_model_card
from xmodels.training.watching.progress import print_status

EVIL = "<script>alert(1)</script> | a\nb \x1b[31mred \u202eturned"


def test_a_terminal_gets_no_codes(capsys):
    assert for_terminal("tab\tend\n é 中文") == "tab\tend\n é 中文"
    assert for_terminal("\x1b[31m \x9b \u202e\r") == "\\x1b[31m \\x9b \\u202e\\x0d"
    print_status(EVIL)
    assert "\x1b" not in capsys.readouterr().out


def test_a_table_of_markdown_gets_one_cell(tmp_path):
    write_model_card(str(tmp_path), EVIL, {"labels": EVIL, EVIL: "1"}, {EVIL: 0.5})
    text = (tmp_path / "model_card.md").read_text()
    assert "<script" not in text and "\x1b" not in text and "&lt;script&gt;" in text
    rows = [line for line in text.splitlines() if "script" in line and line.startswith("|")]
    assert len(rows) == 3 and all(row.replace("\\|", "").count("|") == 3 for row in rows)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("B-PER", "`B-PER`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```"), ("", "`  `"), ("a\nb\x9b", "`a\\nb\\x9b`")],
)
def test_a_code_span_ends_where_it_should(text, shown):
    assert for_code_span(text) == shown


def test_json_shows_what_it_says():
    text = for_json_line({EVIL: "\x7f\x9b\u2028é"})
    assert json.loads(text) == {EVIL: "\x7f\x9b\u2028é"}
    assert text.isprintable() and "\u202e" not in text and "é" in text


def readme_of(task, labels):
    """The README of a server with these labels that answers with them."""
    import tensorflow as tf

    from xmodels.export.readme import readme
    from xmodels.tasks.answer_story import serve as story
    from xmodels.tasks.base.signatures import DEFAULT
    from xmodels.tasks.tag import serve as tag

    server = (tag if task == "tag" else story).Server.__new__((tag if task == "tag" else story).Server)
    tf.Module.__init__(server)
    server.predictor = types.SimpleNamespace(labels=labels, settings=types.SimpleNamespace(crf=True))
    server.serving_ops, server.max_sequence_length, server.stride = "core", 9, 4
    server.max_sentences = server.max_words = 9
    if task == "tag":
        server.entities = server.words = lambda text: {}
        found = {"entity": [["x"]] * 2, "type": [[labels[0]]] * 2, "start": [[0]] * 2, "end": [[1]] * 2}
    else:
        server.probability_labels, server.answer = labels, lambda story, question: {}
        found = {"answer": labels[:1] * 2, "probabilities": [[0.5, 0.5]] * 2}
    outputs = {name: tf.constant(value) for name, value in found.items()}
    words = {"word": "", "tag": "", "start": 0, "end": 0, "probability": 0.0}
    structures = {DEFAULT: outputs, "words": {name: tf.constant([[value]]) for name, value in words.items()}}
    return readme(server, {name: Served(each) for name, each in structures.items()})


class Served:
    """A function of a SavedModel that always gives the same outputs."""

    def __init__(self, outputs):
        self.structured_outputs = outputs

    def __call__(self, **columns):
        return self.structured_outputs


@pytest.mark.parametrize("task", ["tag", "answer_story"])
def test_the_readme_of_an_export_holds_labels_as_text(task):
    evil, good = f"{EVIL} ``` `x` [y](z)", "good"
    text = readme_of(task, [evil, good])
    (line,) = (line for line in text.splitlines() if "script" in line and not line.startswith("{"))
    assert "\x1b" not in text and "\u202e" not in text and good in text
    if task == "tag":
        assert line.startswith("Rows with") and "```` <script>" in line  # inside of code nothing is HTML
    else:
        assert line.startswith("0. ") and "<script" not in line and "\\`x\\`" in line
    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert len(fences) == 10 and all(line in ("```", "```sh", "```json", "```python") for line in fences)


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "@SUM(A1)", "+cmd", "-2+3+cmd|' /C calc'!A0", "\t=1", "\r=1"])
def test_a_spreadsheet_gets_no_formula(text):
    assert for_spreadsheet(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "-1", "+1.5", "-.5e-3", "a=b", "体育", "1-2"])
def test_what_is_no_formula_stays(text):
    assert for_spreadsheet(text) == text


def test_a_message_with_codes_reaches_the_terminal_without(tmp_path, capsys):
    assert invoke("inspect_data", "--data_dir=\x1b[31mnowhere") != 0
    captured = capsys.readouterr()
    assert "\\x1b[31mnowhere" in captured.err and "\x1b" not in captured.err


@pytest.mark.parametrize("name", ["zone", "project"])
def test_what_a_verb_prints_holds_no_codes(name, capsys):
    flags = {"accelerator_type": "v5litepod-8", "zone": "z", "project": "p"} | {name: "\x1b]0;x\x07\u202e"}
    assert invoke("cloud_tpu", "create", **flags) == 0
    said = capsys.readouterr().out
    assert "\\x1b]0;x\\x07\\u202e" in said and not set("\x1b\x07\u202e") & set(said)


@pytest.mark.parametrize(
    ("terminal", "written"), [(True, "\r10% \x1b[32mgood\x1b[0m\\x07\n"), (False, "\r10% \\x1b[32mgood\\x1b[0m\\x07\n")]
)
def test_a_bar_and_our_colours_reach_a_terminal(terminal, written, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    print("\r10% \x1b[32mgood\x1b[0m\x07", file=TerminalStream(stream))
    assert stream.getvalue() == written


def test_predictions_go_into_a_table_that_computes_nothing(tmp_path):
    from xmodels.jobs.predict.write import write

    class Predictor:
        answers = "labels"

        def header(self):
            return ["label", "=1+1"]

        def plain_rows(self, predictions, delimiter):
            return None

        def row(self, asked, prediction):
            return [prediction, 0.5]

    write(str(tmp_path / "out.tsv"), Predictor(), [([("a",), None], ["=cmd|' /C calc'!A0"])])
    with open(tmp_path / "out.tsv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file, delimiter="\t")) == [
            ["label", "'=1+1"], ["'=cmd|' /C calc'!A0", "0.5"], ["", ""]
        ]  # fmt: skip
