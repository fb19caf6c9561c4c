"""What quickstart trains on, and that its commands are commands."""

import dataclasses
import importlib
import json
import os
import pathlib

import pytest

from data_pipelines.corpora import docstrings
from data_pipelines.errors import ReportedError, UsageError
from xmodels.jobs.quickstart import report as quickstart_report
from xmodels.jobs.quickstart import run as quickstart
from xmodels.jobs.quickstart import texts
from xmodels.jobs.quickstart.options import Options
from xmodels.processes.commands import Commands


def test_prose_keeps_sentences_and_drops_code_and_tables():
    text = """Return the elements of the list that are larger than the limit.

    >>> larger([1, 2, 3], 2)

    Parameters
    ----------
    limit : int
        The limit that the elements of the list must be larger than.

    The order of the elements is that of the list, and ties stay as they are.
    """
    kept = docstrings.prose(text.replace("\n    ", "\n"))
    assert kept == [
        "Return the elements of the list that are larger than the limit.",
        "The order of the elements is that of the list, and ties stay as they are.",
    ]


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    folder = tmp_path_factory.mktemp("english") / "text"
    collect = docstrings.collect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docstrings, "collect", lambda size: collect(60_000))
        texts.collect_english(str(folder), None)
    return folder


def test_english_text_is_held_out_by_module_and_names_no_package(english):
    pretraining = (english / "pretrain.txt").read_text(encoding="utf-8")
    heldout = (english / "heldout.txt").read_text(encoding="utf-8")
    assert len(pretraining) > 5 * len(heldout) / 4
    rows = [line.split("\t") for line in (english / "test.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["label", "text"] and {label for label, _ in rows[1:]} <= set(docstrings.PACKAGES)
    assert len(rows) > 20
    sentences = set(pretraining.splitlines())
    assert not any(name in text.lower() for _, text in rows[1:] for name in docstrings.PACKAGES)
    assert not any(text in sentences for _, text in rows[1:])


def test_training_rows_do_not_stand_in_the_test(english):
    parts = [
        set((english / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]) for name in ("train", "dev", "test")
    ]
    assert all(parts) and not parts[0] & parts[2] and not parts[1] & parts[2] and not parts[0] & parts[1]


def test_chinese_text_comes_from_the_samples(tmp_path):
    texts.collect_chinese(str(tmp_path / "text"), None)
    pretraining, heldout = ((tmp_path / f"text/{n}.txt").read_text(encoding="utf-8") for n in ("pretrain", "heldout"))
    assert 0.05 < len(heldout) / len(pretraining) < 0.2
    assert not set(pretraining.splitlines()) & set(heldout.splitlines()) - {""}
    with pytest.raises(UsageError, match="--samples_dir"):
        texts.collect_chinese(str(tmp_path / "other"), str(tmp_path))


@pytest.mark.parametrize(("language", "published"), [("en", False), ("en", True), ("zh", False)])
def test_every_step_is_a_command_that_parses(language, published, tmp_path, monkeypatch):
    shown, titles = [], []
    monkeypatch.setattr(texts, "collect_english", lambda folder, samples: pathlib.Path(folder).mkdir())
    monkeypatch.setattr(texts, "collect_chinese", lambda folder, samples: pathlib.Path(folder).mkdir())
    plan = quickstart.PLANS[language] if published else dataclasses.replace(quickstart.PLANS[language], published=None)
    tour = quickstart.QuickstartRun(plan, str(tmp_path), None, 0.0)
    scores = {"evaluation accuracy": 0.5, "test accuracy": 0.4}
    monkeypatch.setattr(quickstart, "classifier_results", lambda folder: scores | {"evaluation accuracy": len(folder)})
    for name in ("step", "interrupt"):
        monkeypatch.setattr(tour, name, lambda title, *command: titles.append(title) or shown.append(command))
    monkeypatch.setattr(tour, "together", lambda title, commands: titles.append(title) or shown.extend(commands))
    monkeypatch.setattr(tour, "ask", lambda: None)
    monkeypatch.setattr(tour, "finish", lambda: None)
    tour.run(None)
    fetched = ["fetch"] if published else []
    assert [command[0] for command in shown] == [
        *fetched, "train_vocabulary", "create_pretraining_data", "create_pretraining_data", "pretrain", "pretrain",
        *["finetune"] * (12 if published else 8), "evaluate", "export_model",
    ]  # fmt: skip
    folders = {arm: sorted(map(os.path.basename, each)) for arm, each in tour.chosen.items()}
    assert folders["random"] == ["random-1e-3-1", "random-1e-3-2", "random-1e-3-3"]  # the first of equally good rates
    assert sum("--random_init" in command for command in shown) == 4
    assert sum(f"--init_checkpoint=hf:{tmp_path}/published" in command for command in shown) == (4 if published else 0)
    for verb, *arguments in shown:
        command = importlib.import_module(f"launch.{verb}").COMMAND
        command.parse(arguments)  # exits on an unknown flag


def test_report_tells_confusions_commands_and_versions(tmp_path, monkeypatch):
    run = tmp_path / "pretrained"
    run.mkdir()
    entry = {"step": 1, "masked_lm": 5.0, "masked_lm_accuracy": 0.1}
    log = [json.dumps(entry | {"kind": kind}) for kind in ("train", "evaluation")]
    (run / "log.jsonl").write_text("\n".join(log) + "\n")
    (run / "baseline.json").write_text('{"unigram_baseline": 0.05, "neighbour_baseline": 0.3}')
    (run / "config.json").write_text('{"settings": {"masking_rate": 0.4}}')
    packages = {"tensorflow": "2.21.0", "jieba": None}
    environment = {"python": "3.11", "platform": "Linux", "processors": 2, "devices": ["CPU:0"], "packages": packages}
    (run / "environment.json").write_text(json.dumps(environment))
    scores = {"accuracy": 0.75, "macro_f1": 0.7, "f1": {"<a>": 0.8, "b": 0.6}, "confusion": [[31, 2], [3, 4]]}
    (tmp_path / "classifier-scores.json").write_text(json.dumps(scores))
    (tmp_path / "text").mkdir()
    for name in ("train", "test"):
        rows = [("<a>", "red apple pie"), ("b", "blue sky above")] * 6
        text = "".join(f"{label}\t{text}\n" for label, text in [("label", "text"), *rows])
        (tmp_path / f"text/{name}.tsv").write_text(text)
    tests = {"pretrained": [0.7, 0.8, 0.75], "random": [0.5, 0.5, 0.5]}
    monkeypatch.setattr(quickstart_report, "attention", lambda folder, text: "")
    commands = ["xmodels evaluate --test_file='a b.tsv'"]
    facts = quickstart_report.write_report(str(tmp_path), [("Why?", ("b", "0.9"))], tests, "en", commands)
    assert "Classifier, from the published network" not in facts
    tests["published"] = [0.9, 0.85, 0.8]
    facts = quickstart_report.write_report(str(tmp_path), [("Why?", ("b", "0.9"))], tests, "en", commands)
    assert facts["Classifier, from the published network"].startswith(
        "85.0 % ± 5.0 (3 seeds) right; +10.0 points over our own"
    )
    assert facts["Classifier, pretrained"] == "75.0 % ± 5.0 (3 seeds) right on held-out text"
    assert facts["Without a network"] == "a bag of words 100.0% right, always predicting the most frequent label 50.0%"
    assert facts["Gain of pretraining"] == "+25.0 points over a random start, -25.0 over the bag of words"
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<th>&lt;a&gt;</th>" in report and ">31</td>" in report and "<td>0.800</td>" in report
    assert "xmodels evaluate --test_file=&#x27;a b.tsv&#x27;" in report
    assert "<th>tensorflow</th><td>2.21.0</td>" in report and "jieba" not in report


def test_a_step_that_fails_ends_the_street(tmp_path):
    with Commands() as processes, pytest.raises(ReportedError, match="exit code 2"):
        quickstart.QuickstartRun(quickstart.PLANS["en"], str(tmp_path), processes, 0.0).step("Nothing", "no_such_verb")


def test_fine_tunings_side_by_side_tell_their_scores_and_a_failure_its_log(tmp_path, capsys):
    def program(name, code):
        made = f"import json, os, sys; os.mkdir({name!r}); print('why'); r = {{'evaluation accuracy': .5, 'test accuracy': .25}}; "
        return [
            made + f"json.dump({{'results': r}}, open({name + '/results.json'!r}, 'w')); sys.exit({code})",
            f"--model_dir={name}",
        ]

    class Programs(Commands):
        def start(self, arguments, log=None):
            return super().start(["-c", *arguments[2:]], log)  # in place of `-m launch`

    names = [str(tmp_path / "classifiers" / name) for name in ("a", "b", "c")]
    with Programs() as processes:
        tour = quickstart.QuickstartRun(quickstart.PLANS["en"], str(tmp_path), processes, 0.0)
        tour.together("Several", [program(name, 0) for name in names])
        assert capsys.readouterr().out.count("accuracy on the evaluation file 50.0%, test file 25.0%") == 3
        assert not os.path.exists(f"{names[0]}.log")
        with pytest.raises(ReportedError, match=r"exit code 5: why"):
            tour.together("Another", [program(str(tmp_path / "classifiers" / "d"), 5)])


def test_a_published_network_is_there_for_english_only(tmp_path):
    with pytest.raises(UsageError, match="no published network for --language=zh is known; there is one for en"):
        quickstart.quickstart(Options(language="zh", pretrained=True, output_dir=str(tmp_path / "new")))
    with pytest.raises(UsageError, match="--wheel: is for --pretrained"):
        quickstart.quickstart(Options(language="en", wheel="x.whl", output_dir=str(tmp_path / "new")))
    assert not (tmp_path / "new").exists()


def test_an_existing_folder_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="exists"):
        quickstart.quickstart(Options(language="en", output_dir=str(tmp_path)))
