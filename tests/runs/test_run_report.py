"""The report of runs: what stands in it, of which runs, and that it is safe and stands alone."""

import json
import re

import numpy as np
import pytest

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from xmodels.runs.charts import MOST_POINTS, Chart, Curve, grid, smooth, thin_out
from xmodels.runs.reading import read_run, seconds, state
from xmodels.runs.report import write_report

EVIL = "<script>alert('1')</script>$x_1$"


@pytest.fixture(autouse=True)
def drawn_charts(monkeypatch):
    monkeypatch.setattr("xmodels.runs.report.grid", grid)


@pytest.fixture
def make_run(tmp_path):
    """Makes the folder of a run that was killed while it wrote its last line."""

    def make(name="run", num_steps=100, rate=1e-3, samples=()):
        folder = tmp_path / name
        folder.mkdir()
        config = {"job": "pretrain", "model": "bert", "config": {"hidden_dim": 16, "note": EVIL}, "records": {}}
        config |= {"flags": {"system": "bert", "learning_rate": rate}, "settings": {"num_train_steps": 100}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "environment.json").write_text(json.dumps({"python": "3.11", "packages": {"keras": "3.15.1"}}))
        (folder / "baseline.json").write_text('{"unigram_baseline": 0.05}')
        lines = []
        for step in range(10, num_steps + 1, 10):
            rates = {"learning_rate": rate, "tokens_per_second": 9e3, "real_tokens_per_second": 8e3, "skipped": 0.0}
            scores = {"loss": 7 - step / 50, "masked_lm": 7 - step / 50, "masked_lm_accuracy": step / 500}
            lines.append({"kind": "train", "step": step, "time": 1e9 + step, **scores, **rates})
        lines.append({"kind": "evaluation", "step": num_steps, "time": 1e9 + num_steps, **scores})
        lines += [{"kind": "norms", "step": s, "gradient_norm/blocks.0": 1.0 / s} for s in (10, 20)]
        lines.append({"kind": "warning", "step": 20, "text": f"Loss jumps <up> {EVIL}"})
        lines += [{"kind": "samples", "step": s, "examples": e} for s, e in samples]
        (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"kind": "tra')
        return str(folder)

    return make


def test_report_of_a_killed_run_shows_curves_numbers_and_escaped_predictions(make_run):
    right, wrong = ["天", "天", "[MASK]"], [EVIL, "地", "[MASK]"]
    examples = [{"pieces": ["今 ", right, wrong, EVIL], "answers": {"label": ["体育", "音乐"]}}]
    folder = make_run(num_steps=40, samples=[(20, examples), (40, examples)])
    path = write_report(folder)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.count("<svg") == text.count("</svg>") == 5  # loss, accuracy, rate, speed, norms; nothing twice
    assert "step 40 of 100, under way" in text and "8000 real tokens a second" in text
    assert "<ins class=right title='shown: [MASK]'>天</ins>" in text
    assert "<del title='shown: [MASK]'>地</del><ins class=truth>&lt;script&gt;" in text
    assert "<del>音乐</del><ins class=truth>体育</ins>" in text
    assert "<td>Loss jumps &lt;up&gt; &lt;script&gt;" in text
    assert "the same at step 20" in text and "most frequent token" in text and "blocks.0" in text
    assert "<script" not in text and "http" not in text and not re.search(r"(src|href)=['\"](?!#)", text)


def test_runs_are_laid_over_each_other_and_differences_come_first(make_run, tmp_path):
    folders = [make_run("a", rate=1e-3), make_run("b", rate=1e-4)]
    output = tmp_path / "both.html"
    assert invoke("report", model_dir=",".join(folders), output_file=output) == 0
    text = output.read_text(encoding="utf-8")
    assert "a, training" in text and "b, evaluation" in text
    before, common = text.partition("what all have in common")[::2]
    assert "<th>learning_rate</th><td>0.001</td><td>0.0001</td>" in before
    assert "<th>config.hidden_dim</th><td>16</td><td>16</td>" in common


def test_what_is_no_run_and_nowhere_to_write_are_refused(make_run, tmp_path, capsys):
    assert invoke("report", model_dir=tmp_path) == 2
    assert f"--model_dir={tmp_path}: holds no run" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--output_file=report.html"):
        write_report(f"{make_run('a')},{make_run('b')}")


def test_state_tells_finished_running_and_killed_runs_apart(make_run, monkeypatch):
    folder = make_run()
    run = read_run(folder, "run", "red")
    assert state(run).startswith("step 100 of 100, under way")
    monkeypatch.setattr("xmodels.runs.reading.BUSY", -1)
    assert "not finished: stopped or killed" in state(run)
    with open(f"{folder}/results.json", "w") as file:
        json.dump({"num_train_steps": 100, "results": {"loss": 5.0}}, file)
    assert state(read_run(folder, "run", "red")) == "finished, 100 steps"


def test_time_between_a_kill_and_its_resumption_does_not_count():
    assert seconds([{"time": t} for t in (0, 10, 20, 30, 100_030, 100_040)]) == 40


def test_long_curves_are_thinned_by_means_and_gaps_stay_gaps():
    values = np.arange(10 * MOST_POINTS, dtype=float)
    steps, means = thin_out(values, values)
    assert len(means) == MOST_POINTS and means[0] == 4.5 and steps[0] == 9
    assert np.isnan(thin_out([1, 2], [np.inf, 1.0])[1][0])
    straight = np.arange(101.0)
    assert smooth(straight)[50] == 50 and smooth(np.full(90, 3.0)) == pytest.approx(3.0)
    straight[50] = np.nan
    assert smooth(straight)[50] == 50
    assert "&lt;b&gt;" in grid([Chart("<b>", [Curve("$<a>$", [1, 2], [1.0, float("nan")])], logarithmic=True)])
