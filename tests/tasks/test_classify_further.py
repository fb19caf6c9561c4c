"""Classification further: patience, weights of classes, and the score that chooses the epoch."""

import json
import shutil

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.finetuning.class_weights import class_weights
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs import errors
from xmodels.runs.fine_tuned import choose_settings, read_task
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.base.signatures import ask
from xmodels.tasks.classify.answer import Prediction
from xmodels.tasks.classify.score import matthews, scores
from xmodels.tasks.classify.serve import Server
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.classify.thresholds import MEASURES, best_threshold

QUICK = {
    "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false",
    "save_checkpoints_steps": 3, "keep_checkpoint_max": 9,
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """One text in eight names a place first."""
    path, draw = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    for name, count in (("train", 64), ("dev", 32)):
        rows = [(draw.choice(PLACES if i % 8 == 0 else NAMES), draw.choice([*NAMES, *PLACES])) for i in range(count)]
        text = "".join(f"{first} {second}\t{'place' if first in PLACES else 'person'}\n" for first, second in rows)
        (path / f"{name}.tsv").write_text("text\tlabel\n" + text, "utf-8")
    return path


def finetune(data, small_bert, path, **flags):
    files = {"train_file": data / "train.tsv", "init_checkpoint": small_bert}
    return invoke("finetune", model_dir=path, **QUICK | files | flags)


@pytest.mark.long
def test_patience_ends_a_training_where_a_resumed_one_ends_too(data, small_bert, tmp_path, capsys):
    flags = {"eval_file": data / "dev.tsv", "num_train_epochs": 9, "early_stopping_patience": 2, "learning_rate": 0.0}
    assert (
        finetune(data, small_bert, tmp_path / "run", **flags) == 0
    )  # nothing is learnt, so the first epoch stays the best
    assert "training ends at step 12 of 36" in capsys.readouterr().out
    found = json.loads((tmp_path / "run/results.json").read_text())
    assert (found["num_train_steps"], found["kept_step"], found["last_step"]) == (36, 4, 12)
    assert "12 of 36, ended early" in (tmp_path / "run/model_card.md").read_text()
    assert finetune(data, small_bert, tmp_path / "run", **flags) == 0
    assert "Already finished" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run/checkpoints/step_00000012")  # killed before its last state
    (tmp_path / "run/results.json").unlink()
    assert finetune(data, small_bert, tmp_path / "run", **flags) == 0
    assert "training ends at step 12 of 36" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/results.json").read_text()) == found


@pytest.mark.long
def test_evaluations_come_as_often_as_asked_and_patience_counts_them(data, small_bert, tmp_path, capsys):
    flags = {"eval_file": data / "dev.tsv", "num_train_epochs": 5, "eval_every": 8}
    assert finetune(data, small_bert, tmp_path / "run", **flags) == 0
    out = capsys.readouterr().out
    assert [step for step in range(1, 21) if f"evaluation at step {step} " in out] == [8, 16, 20]  # and at the end
    flags |= {"early_stopping_patience": 1, "learning_rate": 0.0}
    assert finetune(data, small_bert, tmp_path / "still", **flags) == 0
    assert "training ends at step 16 of 20" in capsys.readouterr().out


def test_patience_needs_rows_to_judge_by(data, small_bert, tmp_path, capsys):
    assert finetune(data, small_bert, tmp_path / "run", early_stopping_patience=1) != 0
    assert "--eval_file" in capsys.readouterr().err


def test_weights_of_classes_are_those_of_scikit_learn_and_of_a_copied_row():
    ids = np.array([0, 0, 0, 1, 2, 2])
    assert class_weights("balanced", list("abc"), ids) == pytest.approx([6 / 9, 6 / 3, 6 / 6])
    assert class_weights("b:2, c:0.5", list("abc"), ids) == [1.0, 2.0, 0.5]
    assert class_weights(None, list("abc"), ids) is None
    assert class_weights("x:y:3", ["x:y", "z"], ids[:4]) == [3.0, 1.0]
    for wrong in ("d:2", "a:0", "a:nan", "a", "a:-1", ""):
        with pytest.raises(UsageError, match="Known labels: a, b, c"):
            class_weights(wrong, list("abc"), ids)
    backbone = Bert(
        BertConfig(20, 16, 1, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    ).initialize()
    task = Classify(backbone.config, "ab", class_weights=[1.0, 3.0])
    tokens = np.arange(1, 9).reshape(2, 4)
    rows = {"token_ids": tokens, "segment_ids": tokens * 0, "padding_mask": tokens > 0, "labels": np.array([0, 1])}
    copied = {name: value[[0, 1, 1, 1]] for name, value in rows.items()} | {"example_weights": np.ones(4, "float32")}
    weighted = rows | {"example_weights": np.ones(2, "float32")}
    found = task.score(task.forward(backbone, weighted), weighted, backbone)
    task.class_weights = None
    expected = task.score(task.forward(backbone, copied), copied, backbone)
    np.testing.assert_allclose(np.array(found[0]["classify"]), np.array(expected[0]["classify"]), rtol=1e-5)
    assert float(found[1]["accuracy"][1]) == 2.0  # of scores, rows count alike


def test_mcc_is_scikit_learns():
    from sklearn.metrics import matthews_corrcoef

    draw = np.random.default_rng(0)
    for classes in (2, 5):
        truth, found = draw.integers(0, classes, (2, 60))
        confusion = np.zeros((classes, classes), int)
        np.add.at(confusion, (truth, found), 1)
        assert matthews(confusion) == pytest.approx(matthews_corrcoef(truth, found), abs=1e-9)
    assert matthews(np.array([[7, 0], [3, 0]])) == 0.0  # always the same answer


@pytest.mark.long
def test_another_score_chooses_the_epoch_and_rare_labels_are_learnt(data, small_bert, tmp_path, capsys):
    flags = {
        "eval_file": data / "dev.tsv",
        "num_train_epochs": 3,
        "learning_rate": 2e-3,
        "best_metric": "mcc",
        "class_weights": "balanced",
    }
    assert finetune(data, small_bert, tmp_path / "run", **flags) == 0
    assert "best mcc" in capsys.readouterr().out
    scores = tmp_path / "scores.json"
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=data / "dev.tsv", output_file=scores) == 0
    assert (
        "The loss counts all rows alike; that of the fine-tuning counts them as --class_weights=balanced"
        in capsys.readouterr().out
    )
    kept = json.loads((tmp_path / "run/results.json").read_text())["results"]["evaluation mcc"]
    assert json.loads(scores.read_text())["mcc"] == pytest.approx(kept, abs=1e-6)
    assert finetune(data, small_bert, tmp_path / "run", **flags | {"class_weights": "place:2"}) != 0
    assert "class_weights" in capsys.readouterr().err
    log = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert max(entry["mcc"] for entry in log if entry["kind"] == "evaluation") == pytest.approx(kept)
    wrong = json.loads((tmp_path / "run/errors.json").read_text())
    assert (
        wrong["wrong"]
        == round((1 - json.loads(scores.read_text())["accuracy"]) * 32)
        == sum(p["count"] for p in wrong["pairs"])
    )
    assert wrong["rows"] == 32 and all(each["truth"] != each["answer"] for each in wrong["examples"])
    known = (data / "dev.tsv").read_text("utf-8")
    assert all(f"{each['text']}\t{each['truth']}\n" in known for each in wrong["examples"])
    assert f"{wrong['wrong']} wrong predictions on 32 rows of dev.tsv" in (tmp_path / "run/report.html").read_text()
    assert folder.read_labels(str(tmp_path / "run/backbone")) == ("person", "place")


@pytest.mark.parametrize("name", MEASURES)
def test_the_threshold_of_two_labels_is_the_best_of_all(name):
    from sklearn import metrics

    theirs = {
        "accuracy": metrics.accuracy_score, "positive_f1": metrics.f1_score, "mcc": metrics.matthews_corrcoef,
        "macro_f1": lambda truth, found: metrics.f1_score(truth, found, average="macro"),
    }[name]  # fmt: skip
    draw = np.random.default_rng(3)
    for _ in range(10):
        right = draw.random(60) < 0.3
        probabilities = np.round(0.7 * draw.random(60) + 0.2 * right, 1)  # many are equal
        found = theirs(right, probabilities >= best_threshold(probabilities, right, MEASURES[name]))
        every = [theirs(right, probabilities >= cut) for cut in np.arange(0.05, 1.05, 0.1)]
        assert found == pytest.approx(max(every))


@pytest.mark.parametrize("positive", [None, "a", "b"])
def test_the_area_under_the_roc_curve_is_that_of_scikit_learn(positive):
    from sklearn.metrics import roc_auc_score

    draw = np.random.default_rng(2)
    for _ in range(5):
        shares = np.round(draw.random(40), 1).astype("float32")  # many are equal
        right = draw.random(40) < 0.2 + 0.6 * shares
        predictions = [Prediction("b" if p > 0.5 else "a", {"a": float(1 - p), "b": float(p)}) for p in shares]
        found = scores(predictions, ["b" if each else "a" for each in right], positive_label=positive)
        assert found["roc_auc"] == pytest.approx(roc_auc_score(right, shares), abs=1e-6)
    assert np.isnan(scores(predictions, ["a"] * 40)["roc_auc"])
    three = [Prediction("a", {"a": 0.5, "b": 0.3, "c": 0.2})]
    assert "roc_auc" not in scores(three, ["a"])


@pytest.mark.long
def test_a_threshold_is_chosen_for_the_score_and_holds_wherever_the_run_answers(data, small_bert, tmp_path, capsys):
    run, dev = tmp_path / "run", data / "dev.tsv"
    flags = {
        "eval_file": dev,
        "test_file": dev,
        "num_train_epochs": 1,
        "learning_rate": 1e-4,
        "best_metric": "positive_f1",
    }
    (tmp_path / "more.tsv").write_text(  # five rows of the rarer label, as fewer choose no threshold
        dev.read_text("utf-8") + "".join(f"{a} {b}\tplace\n" for a in PLACES for b in NAMES), "utf-8"
    )
    flags |= {"eval_file": tmp_path / "more.tsv", "test_file": tmp_path / "more.tsv", "positive_label": "place"}
    assert finetune(data, small_bert, run, **flags, tune_threshold=True) == 0
    settings = read_task(str(run)).settings
    assert settings["positive_label"] == "place" and settings["threshold"] != 0.5
    results = json.loads((run / "results.json").read_text())["results"]
    assert results["test positive_f1"] == pytest.approx(
        results["evaluation positive_f1"]
    )  # with the threshold chosen before
    given = {"test_file": tmp_path / "more.tsv", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", model_dir=run, **given) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["positive_f1"] == found["f1"]["place"] == pytest.approx(results["evaluation positive_f1"], abs=1e-3)
    assert found["threshold"] == settings["threshold"]
    assert json.loads((run / "errors.json").read_text())["wrong"] == round((1 - found["accuracy"]) * 48)

    choose_settings(str(run), {"threshold": 1e-6})  # all are places then, in answers and in a graph
    predictor = load(str(run))
    texts = [("ann bob",), ("rome dan",)]
    assert [each.label for each in predictor.predict(texts)] == ["place", "place"]
    server = Server(predictor, "core")
    assert {x.decode() for x in ask(server.answer, server.columns_of(texts))["label"]} == {"place"}
    choose_settings(str(run), {"threshold": 2})
    with pytest.raises(CheckpointError, match="`threshold`, a number from 0 to 1"):
        load(str(run))


def test_what_is_of_two_labels_is_refused_of_more(data, small_bert, tmp_path, capsys):
    (tmp_path / "three.tsv").write_text("text\tlabel\n" + 3 * "ann\ta\nbob\tb\nrome\tc\n", "utf-8")
    given = {"train_file": tmp_path / "three.tsv", "eval_file": tmp_path / "three.tsv"}
    two = {"train_file": data / "train.tsv"}
    for flags, said in (
        ({"tune_threshold": True}, "--tune_threshold: is for two labels, and the rows have 3"),
        ({"best_metric": "positive_f1"}, "--best_metric=positive_f1: is for two labels"),
        ({"best_metric": "roc_auc"}, "--best_metric=roc_auc: is for two labels"),
        (two | {"best_metric": "roc_auc", "tune_threshold": True}, "is the same at every threshold"),
        (
            two | {"eval_file": data / "dev.tsv", "positive_label": "x"},
            "--positive_label=x: is no label; they are person",
        ),
        (two | {"eval_file": "", "tune_threshold": True}, "chosen on --eval_file"),
    ):
        assert finetune(data, small_bert, tmp_path / "run", **given | flags) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [{"task": "regress", "class_weights": "balanced"}, {"task": "tag", "best_metric": "mcc"}]
)
def test_other_tasks_have_no_such_flags(flags, data, small_bert, tmp_path, capsys):
    assert finetune(data, small_bert, tmp_path / "run", **flags) != 0
    assert "has no such flag" in capsys.readouterr().err


def test_what_a_report_shows_of_errors_is_escaped(tmp_path):
    (tmp_path / "errors.json").write_text(
        json.dumps(
            {
                "file": "<b>.tsv", "rows": 2, "wrong": 1, "pairs": [{"truth": "<i>", "answer": "b", "count": 1}],
                "examples": [{"truth": "<i>", "answer": "b", "probability": 0.5, "text": "<script>"}],
            }
        )
    )  # fmt: skip
    found = errors.section(str(tmp_path))
    assert "&lt;script&gt;" in found and not any(tag in found for tag in ("<b>", "<i>", "<script>"))
    (tmp_path / "errors.json").write_text('{"rows": 2, "wro')
    assert errors.section(str(tmp_path)) == errors.section(str(tmp_path / "nowhere")) == ""
