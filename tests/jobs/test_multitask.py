"""Several tasks learnt together: steps and batches, heads that rest, files of tasks, each task as a run, few labels, resuming."""

import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.remainders import Remainders
from data_pipelines.errors import DataError
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER
from xmodels import systems
from xmodels.jobs.multitask.options import Options
from xmodels.jobs.multitask.plan import plan
from xmodels.jobs.multitask.steps import batches_of, epochs_of
from xmodels.jobs.multitask.tasks_file import read_tasks_file
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import write_model
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.rank.task import listwise
from xmodels.training.finetuning import Joint

ROOT = pathlib.Path(__file__).parents[2]
TASKS = ("place", "pair", "answer")
PLAN = """defaults:
  max_seq_length: 16
  train_batch_size: 16
tasks:
  place:
    train_file: ${DATA}/place_train.tsv
    eval_file: ${DATA}/place_dev.tsv
    task_dropout: 0.05
  pair:
    task: san
    train_file: ${DATA}/pair_train.tsv
    eval_file: ${DATA}/pair_dev.tsv
    text_column: hypothesis
    text_pair_column: premise
  answer:
    task: rank
    train_file: ${DATA}/answer_train.tsv
    test_file: ${DATA}/answer_dev.tsv
    text_column: query
    text_pair_column: candidate
    train_batch_size: 8
    list_size: 2
"""
NUMBER = """  number:
    task: regress
    train_file: ${DATA}/number_train.tsv
    eval_file: ${DATA}/number_dev.tsv
"""
SIZES = {"place": 40, "number": 35, "pair": 40, "answer": 12}  # of the training files
BATCHES = {"place": 3, "pair": 3, "answer": 2}  # of an epoch


def write_data(path):
    """Files of four small tasks about who lives where."""
    draw = np.random.default_rng(0)
    for name, share in (("train", 1.0), ("dev", 0.5)):
        sizes = {task: int(share * size) for task, size in SIZES.items()}
        texts = [f"{draw.choice(NAMES)} lives in {draw.choice(PLACES)}" for _ in range(sizes["place"])]
        rows = {
            "place": ["text\tlabel", *(f"{text}\t{text.split()[-1]}" for text in texts)],
            "number": ["text\tlabel", *(f"{t}\t{PLACES.index(t.split()[-1]) * 1.5}" for t in texts[: sizes["number"]])],
            "pair": ["hypothesis\tpremise\tlabel"], "answer": ["query\tcandidate\tlabel"],
        }  # fmt: skip
        for i in range(sizes["pair"]):
            place, other = draw.permutation(PLACES)[:2]
            rows["pair"].append(
                f"{draw.choice(NAMES)} in {place}\tin {place if i % 2 else other}\t{('no', 'yes')[i % 2]}"
            )
        for i in range(sizes["answer"]):
            query = f"who lives {NAMES[i % 4]} ? {'and ' * (i // 4)}"
            rows["answer"] += [
                f"{query}\tin {place}\t{int(place == 'rome')}" for place in draw.permutation(["rome", "oslo"])
            ]
        for task, lines in rows.items():
            (path / f"{task}_{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    (path / "tasks.yaml").write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("tasks"))


QUICK = {
    "distribution_strategy": "one_device", "jit_compile": "false", "learning_rate": 2e-2, "num_train_epochs": 2,
    "save_checkpoints_steps": 1, "keep_checkpoint_max": 99, "log_steps": 8,
}  # fmt: skip


def multitask(data, small_bert, path, **flags):
    given = {"tasks_file": data / "tasks.yaml", "set": f"DATA={data}", "init_checkpoint": small_bert}
    return invoke("multitask", model_dir=path, **QUICK | given | flags)


@pytest.fixture(scope="module")
def run(data, small_bert, tmp_path_factory):
    """A run of three tasks with a state behind every step."""
    path = tmp_path_factory.mktemp("joint") / "run"
    assert multitask(data, small_bert, path) == 0
    return path


# Steps and batches.


def test_an_epoch_has_the_batches_of_all_tasks_in_an_order_of_its_own():
    counts = {"a": 40, "b": 7, "c": 1}
    schedule = epochs_of(counts, 2.5, seed=3)
    names = [schedule.task_at(step) for step in range(schedule.num_steps)]
    epochs = [names[first : first + 48] for first in (0, 48, 96)]
    assert all({name: epoch.count(name) for name in counts} == counts for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != sorted(epochs[0])
    again = epochs_of(counts, 9, seed=3)  # more epochs leave the first ones as they were
    assert [again.task_at(step) for step in range(96)] == names[:96]
    assert [epochs_of(counts, 1, seed=4).task_at(step) for step in range(48)] != epochs[0]
    assert [batches_of(n, 8) for n in (1, 8, 9)] == [1, 1, 2]


def test_with_a_ratio_the_others_have_so_many_batches_of_those_of_the_main_task():
    schedule = epochs_of({"main": 10, "a": 30, "b": 10}, 20, 0, "main", 0.4)
    assert all(stage["main"] == 10 and stage["a"] + stage["b"] == 4 for stage in schedule.stages)
    assert 45 <= schedule.totals["a"] <= 72  # 60 are expected, by the sizes of a and b
    few = epochs_of({"main": 10, "a": 2, "b": 1}, 1, 0, "main", 1.0)
    assert few.stages == ({"main": 10, "a": 2, "b": 1},)  # no more than there are
    more = epochs_of({"main": 10, "a": 30, "b": 10}, 5, 0, "main", 2.5)
    assert all(stage["main"] == 10 and stage["a"] + stage["b"] == 25 for stage in more.stages)


@pytest.mark.parametrize(("ratio", "others"), [(None, 40), (2.0, 20), (0.01, 0)])
def test_the_main_task_may_come_last_in_each_epoch(ratio, others):
    counts = {"a": 30, "main": 10, "b": 10}
    last, mixed = (epochs_of(counts, 2, 1, "main", ratio, order) for order in ("auxiliary_first", "shuffled"))
    assert last.stages == mixed.stages and last.num_steps == 2 * (others + 10)
    for first in (0, others + 10):
        found, usual = ([each.task_at(first + step) for step in range(others + 10)] for each in (last, mixed))
        assert found == [name for name in usual if name != "main"] + ["main"] * 10
        assert others == 0 or found[:others] != sorted(found[:others])


def batches_with_remainder(count=11, size=4, shape=(3,)):
    mask = np.ones((count, *shape), bool)
    arrays = {"padding_mask": mask, "labels": np.arange(count, dtype=np.int32)}
    return Batches(ArraySource(arrays, "made up"), lambda features: features, size, 5, None, Remainders())


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_an_epoch_has_each_example_once_and_the_last_batch_is_filled_up(shape):
    found = [
        {n: v.numpy() for n, v in batch.items()} for batch in batches_with_remainder(shape=shape).training().take(6)
    ]
    for epoch in (found[:3], found[3:]):
        real = [batch["labels"][batch["example_weights"] > 0] for batch in epoch]
        assert sorted(np.concatenate(real)) == list(range(11)) and sorted(map(len, real)) == [3, 4, 4]
        assert all(batch["padding_mask"].shape == (4, *shape) for batch in epoch)
    orders = [np.concatenate([batch["labels"] for batch in epoch]).tolist() for epoch in (found[:3], found[3:])]
    assert orders[0] != orders[1]
    rest = batches_with_remainder(shape=shape).training(consumed=4, cursor=found[0]["cursor"][-1].tolist()).take(5)
    for batch, expected in zip(rest, found[1:], strict=True):
        np.testing.assert_array_equal(batch["labels"], expected["labels"])


def test_replicas_share_a_batch_with_remainder():
    whole = [batch["labels"].numpy() for batch in batches_with_remainder().training().take(3)]
    parts = [batch["labels"].numpy() for batch in batches_with_remainder().training(per_batch=2).take(6)]
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(whole))


def test_the_loss_of_two_candidates_is_a_binary_cross_entropy_of_the_difference():
    scores = np.random.default_rng(0).normal(size=(5, 2)).astype("float32") * 3
    labels = np.eye(2, dtype="float32")[[0, 1, 1, 0, 1]]
    loss, count = listwise(tf.constant(scores), tf.constant(labels), tf.ones((5, 2)))
    difference = np.where(labels[:, 0] > 0, scores[:, 0] - scores[:, 1], scores[:, 1] - scores[:, 0])
    assert float(loss) == pytest.approx(np.log1p(np.exp(-difference.astype("float64"))).sum(), rel=1e-5)
    assert float(count) == 5


# The run.


def state(run, step):
    folder = run / f"checkpoints/step_{step:08d}"
    return *(load_file(folder / name) for name in ("weights.safetensors", "optimizer.safetensors")), json.loads(
        (folder / "state.json").read_text()
    )


def test_a_step_moves_the_network_and_the_head_of_its_task_and_nothing_else(run):
    seen = set()
    for step in range(1, 8):
        (before, slots_before, place_before), (after, slots_after, place_after) = state(run, step), state(run, step + 1)
        moved = {
            name for name in TASKS
            if place_after["streams"].get(name, {}).get("consumed", 0) > place_before["streams"].get(name, {}).get("consumed", 0)
        }  # fmt: skip
        assert len(moved) == 1  # a batch is of one task
        seen |= moved
        changed = {name for name in before if not np.array_equal(before[name], after[name])}
        heads = {name.split(".")[1] for name in changed if name.startswith("objective.")}
        assert heads == {f"task_{name}" for name in moved}  # no decay either
        assert any("blocks.0" in name for name in changed) and "backbone.embedding.token.embeddings" in changed
        shared = {value.shape for name, value in before.items() if name.startswith("backbone.")}
        for kind in (".m", ".v"):
            slots = {n: v for n, v in slots_before.items() if n.endswith(kind) and v.shape not in shared}
            moved_slots = Counter(v.shape for n, v in slots.items() if not np.array_equal(v, slots_after[n]))
            expected = Counter(before[n].shape for n in changed if before[n].shape not in shared)
            if (
                "answer" in moved and kind == ".v"
            ):  # the bias of scores that are ranked has rounding alone for a gradient,
                moved_slots[1,] = expected[1,]  # of which Adamax keeps the largest
            assert moved_slots == expected
    assert seen == set(TASKS)


def test_two_epochs_have_all_batches_of_each_task(run):
    streams, sizes = state(run, 16)[2]["streams"], {"answer": 8}
    found = {name: streams[name]["consumed"] // sizes.get(name, 16) for name in TASKS}
    assert found == {name: 2 * count for name, count in BATCHES.items()}


def test_results_name_each_task_and_the_mean_of_their_scores_chooses(run):
    stored = json.loads((run / "results.json").read_text())
    results = stored["results"]
    assert {"place evaluation accuracy", "pair evaluation accuracy", "answer test ndcg_10"} <= set(results)
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    scored = {e["step"]: e for e in entries if e["kind"] == "evaluation"}
    for each in scored.values():
        decisive = [each[name] for name in ("place/accuracy", "pair/accuracy")]
        assert each["mean_score"] == pytest.approx(np.mean(decisive))
    best = max(scored, key=lambda step: (scored[step]["mean_score"], -step))
    assert stored["kept_step"] == best
    assert results["pair evaluation accuracy"] == pytest.approx(scored[best]["pair/accuracy"])
    assert "pair/classify" in next(e for e in entries if e["kind"] == "train")
    assert "mean_score" in (run / "report.html").read_text()


def test_each_task_has_a_report_with_its_own_pictures(run):
    names = {"place": "confusions", "pair": "confusions", "answer": "ranks"}
    for name, picture in names.items():
        assert (run / name / f"pictures/{picture}.png").exists()
        assert f"alt='{picture}'" in (run / name / "report.html").read_text("utf-8")


def test_each_task_is_a_run_that_can_be_used(run, data, tmp_path, capsys):
    flags = {"test_file": data / "pair_dev.tsv", "output_file": tmp_path / "scores.json"}
    assert invoke("evaluate", model_dir=run / "pair", **flags) == 0
    results = json.loads((run / "results.json").read_text())["results"]
    assert json.loads((tmp_path / "scores.json").read_text())["accuracy"] == pytest.approx(
        results["pair evaluation accuracy"]
    )
    predictor = load(str(run / "pair"))
    rows = [("ann in rome", "in rome"), ("ann", "many words and more words in oslo")]
    together, alone = predictor.predict(rows), predictor.predict(rows[:1])
    assert sum(together[0].probabilities.values()) == pytest.approx(1.0, abs=1e-5)
    assert together[0].probabilities == pytest.approx(alone[0].probabilities, abs=1e-5)  # padded or not
    assert invoke("predict", model_dir=run / "pair", text="ann in rome") != 0
    assert "was fine-tuned on pairs of texts" in capsys.readouterr().err
    assert invoke("predict", model_dir=run, text="ann") != 0
    assert f"has learnt several tasks. Name the folder of one: {run}/place, {run}/pair" in capsys.readouterr().err
    weights = [load_file(run / name / "backbone/weights.safetensors") for name in ("place", "answer")]
    for name in weights[0]:
        if name.startswith("backbone."):
            np.testing.assert_array_equal(weights[0][name], weights[1][name])


@pytest.mark.long
def test_a_finished_run_says_so_and_other_tasks_are_another_run(run, data, small_bert, tmp_path, capsys):
    (tmp_path / "tasks.yaml").write_text(PLAN.replace("task_dropout: 0.05", "task_dropout: 0.1"))
    assert multitask(data, small_bert, run, tasks_file=tmp_path / "tasks.yaml") != 0
    assert "tasks.place.task_dropout: 0.05 then, 0.1 now" in capsys.readouterr().err
    (tmp_path / "tasks.yaml").write_text("order: auxiliary_first\nmain_task: place\n" + PLAN)
    assert multitask(data, small_bert, run, tasks_file=tmp_path / "tasks.yaml") != 0
    assert "epochs.order: None then, 'auxiliary_first' now" in capsys.readouterr().err


@pytest.mark.long
def test_names_of_relevant_labels_and_the_main_task_last(data, small_bert, tmp_path):
    for path in data.glob("answer_*.tsv"):
        rows = [row.split("\t") for row in path.read_text("utf-8").splitlines()]
        named = [row if row[2] == "label" else [*row[:2], ("no", "yes")[int(row[2])]] for row in rows]
        (tmp_path / path.name).write_text("".join("\t".join(row) + "\n" for row in named), "utf-8")
    own = "    list_size: 2\n    relevant_label: 'yes'\n    rank_scale: 2\n"
    plan = PLAN.replace("    list_size: 2\n", own).replace("${DATA}/answer", f"{tmp_path}/answer")
    (tmp_path / "tasks.yaml").write_text("order: auxiliary_first\nmain_task: place\nratio: 1.5\n" + plan)
    flags = {"tasks_file": tmp_path / "tasks.yaml", "num_train_epochs": 1, "save_checkpoints_steps": 99}
    assert multitask(data, small_bert, tmp_path / "run", **flags) == 0
    path = tmp_path / "run/answer"
    expected = json.loads((path / "results.json").read_text())["results"]["test ndcg_10"]
    assert (
        invoke("evaluate", model_dir=path, test_file=tmp_path / "answer_dev.tsv", output_file=tmp_path / "a.json") == 0
    )
    assert json.loads((tmp_path / "a.json").read_text())["ndcg_10"] == pytest.approx(expected, abs=1e-6)
    assert load(str(path)).task.scale == 2


@pytest.mark.long
def test_a_resumed_run_equals_an_uninterrupted_one(run, data, small_bert, tmp_path, capsys):
    cut = tmp_path / "cut"
    shutil.copytree(run, cut)
    for step in range(6, 17):
        shutil.rmtree(cut / f"checkpoints/step_{step:08d}", ignore_errors=True)
    (cut / "results.json").unlink()
    shutil.rmtree(cut / "backbone")
    shutil.rmtree(cut / "pair")
    assert multitask(data, small_bert, cut) == 0
    assert "Resumed from" in capsys.readouterr().out
    expected, found = (load_file(folder / "checkpoints/step_00000016/weights.safetensors") for folder in (run, cut))
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name], err_msg=name)
    assert json.loads((cut / "results.json").read_text()) == json.loads((run / "results.json").read_text())
    assert json.loads((cut / "pair/results.json").read_text()) == json.loads((run / "pair/results.json").read_text())


@pytest.mark.long
def test_a_run_that_is_killed_ends_with_equal_weights(data, small_bert, tmp_path):
    flags = {"tasks_file": data / "tasks.yaml", "set": f"DATA={data}", "init_checkpoint": small_bert}
    flags |= QUICK | {"num_train_epochs": 12, "save_checkpoints_steps": 3, "keep_checkpoint_max": 2, "log_steps": 1}
    command = [sys.executable, "-m", "launch", "multitask", *(f"--{name}={value}" for name, value in flags.items())]
    whole, killed = ([*command, f"--model_dir={tmp_path / name}"] for name in ("whole", "killed"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(whole, check=True, env=environment, capture_output=True)
    log, target = tmp_path / "killed/log.jsonl", random.Random(time.time_ns()).randrange(6, 60)
    process = subprocess.Popen(killed, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None and (not log.is_file() or log.read_text().count("\n") < target):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "killed/results.json").is_file(), "killed too late to test anything"
    subprocess.run(killed, check=True, env=environment, capture_output=True)
    for file in ("checkpoints/step_00000096/weights.safetensors", "pair/backbone/weights.safetensors"):
        expected, found = (load_file(tmp_path / name / file) for name in ("whole", "killed"))
        for name in expected:
            np.testing.assert_array_equal(expected[name], found[name], err_msg=f"{name}, killed near step {target}")


@pytest.mark.long
def test_two_devices_with_parts_of_batches_equal_one(data, small_bert, tmp_path):
    plan = (
        (PLAN + NUMBER).replace("task: san", "task: classify").replace("0.05", "0.0")
    )  # no draws, which replicas share otherwise
    (tmp_path / "tasks.yaml").write_text(plan)
    flags = {"tasks_file": tmp_path / "tasks.yaml", "save_checkpoints_steps": 99, "optimizer": "sgd"}
    devices = {"distribution_strategy": "mirrored", "num_virtual_devices": 2, "gradient_accumulation_steps": 2}
    assert multitask(data, small_bert, tmp_path / "one", **flags) == 0
    assert multitask(data, small_bert, tmp_path / "two", **flags | devices) == 0
    one, two = (
        load_file(tmp_path / f"{name}/checkpoints/step_00000022/weights.safetensors") for name in ("one", "two")
    )
    for name in one:
        np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)
    results = json.loads((tmp_path / "one/number/results.json").read_text())["results"]
    assert set(results) == {"evaluation loss", "evaluation spearman"}


@pytest.mark.long
def test_an_export_of_pairs_answers_as_the_run(run, tmp_path):
    assert invoke("export_model", model_dir=run / "pair", export_dir=tmp_path / "served") == 0  # which compares both


# Going on with one task, and few labels.


@pytest.mark.long
def test_a_task_goes_on_alone_with_its_head_and_with_few_labels(run, data, tmp_path, capsys):
    flags = {"max_seq_length": 16, "train_batch_size": 4, "distribution_strategy": "one_device", "jit_compile": "false",
             "learning_rate": 0.0, "num_train_epochs": 1, "train_file": data / "place_train.tsv", "num_train_examples": 8}  # fmt: skip
    made = tmp_path / "alone"
    assert invoke("finetune", init_checkpoint=run / "place", init_head=True, model_dir=made, **flags) == 0
    out = capsys.readouterr().out
    assert "8 of 40 examples drawn" in out and "8 training rows, 2 steps" in out
    assert "Optimizer bert_adamw, learning rate 0 without warm-up" in out
    expected, found = (load_file(path / "backbone/weights.safetensors") for path in (run / "place", made))
    for name in ("objective.classify.head.kernel", "backbone.pooler.kernel"):
        np.testing.assert_array_equal(found[name], expected[name])
    flags |= {"model_dir": tmp_path / "other"}
    assert invoke("finetune", init_checkpoint=run / "place", init_head=True, pooling="max", **flags) == 2
    assert "reads a state by pooling=published, and here it would be max" in capsys.readouterr().err
    assert invoke("finetune", init_checkpoint=run / "answer", init_head=True, **flags) != 0
    assert "is of --task=rank, labels none; here it is --task=classify, labels bonn" in capsys.readouterr().err
    assert invoke("finetune", init_checkpoint=run, train_fraction=0.5, **flags) != 0
    assert "give one of them" in capsys.readouterr().err
    assert invoke("finetune", init_checkpoint=run, **flags | {"num_train_examples": 41}) != 0
    assert "there are 40. Give fewer" in capsys.readouterr().err


def test_a_task_is_not_overwritten_by_a_run_of_its_own(run, data, small_bert, tmp_path, capsys):
    flags = {"init_checkpoint": small_bert, "train_file": data / "place_train.tsv", "max_seq_length": 16}
    kept = (run / "place/config.json").read_bytes()
    assert invoke("finetune", model_dir=run / "place", **flags) == 2
    assert "is the folder of the task place of the joint run" in capsys.readouterr().err
    assert (run / "place/config.json").read_bytes() == kept
    shutil.copy(run / "config.json", tmp_path)  # a joint run that has written no folder of a task yet
    assert invoke("finetune", model_dir=tmp_path / "place", **flags) == 2
    assert "is the folder of the task place" in capsys.readouterr().err
    assert not (tmp_path / "place").exists()
    assert invoke("finetune", "--dry_run", model_dir=tmp_path / "alone", **flags) == 0


def test_few_examples_are_drawn_by_the_seed(capsys):
    from types import SimpleNamespace

    from xmodels.jobs.finetune.few_examples import subsample
    from xmodels.tasks.base.read import Data

    labels = np.array([0] * 90 + [1] * 10, np.int32)
    data = Data(ArraySource({"token_ids": np.arange(100), "labels": labels}, "rows"), {}, ["a", "b"], 1, "2 labels")

    def rows(seed, fraction):
        options = SimpleNamespace(seed=seed, train_fraction=fraction, num_train_examples=None)
        return subsample(data, options).source.arrays["token_ids"].tolist()

    assert rows(1, 0.1) == rows(1, 0.1) != rows(2, 0.1) and len(set(rows(1, 0.1))) == 10
    assert rows(1, None) == rows(1, 1.0) == list(range(100))
    assert len(rows(1, 0.001)) == 1
    assert "none has the label" in capsys.readouterr().out


# The file of tasks.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("task_dropout: 0.05", "task_dropout: 2"), "line 8: `tasks.place.task_dropout`: task_dropout=2: must be at least 0"),
        (("task_dropout: 0.05", "task_droput: 0.1"), r"line 8: unknown key `tasks.place.task_droput`. Did you mean task_dropout"),
        (("task_dropout: 0.05", "teacher: run"), "line 8: unknown key `tasks.place.teacher`"),
        (("  pair:", "  place:"), "line 9: `tasks.place` stands twice"),
        (("place_train.tsv", "nowhere.tsv"), r"line 6: `tasks.place.train_file`: .*nowhere.tsv: no such file"),
        (("task: rank", "task: rnk"), r"line 16: `tasks.answer.task`: task='rnk': unknown value. Did you mean rank"),
        (("tasks:\n", "main_task: place\ntasks:\n"), "line 4: `main_task`: belongs to `ratio`, which is missing"),
        (("tasks:\n", "ratio: 0.5\nmain_task: places\ntasks:\n"), "line 5: `main_task`: 'places' is none of `tasks`"),
        (("tasks:\n", "ratio: 2\ntasks:\n"), "line 4: `ratio`: belongs to `main_task`, which is missing"),
        (("tasks:\n", "ratio: 0\nmain_task: place\ntasks:\n"), "line 4: `ratio` must be a number above 0"),
        (("tasks:\n", "order: auxiliary_first\ntasks:\n"), "line 4: `order`: belongs to `main_task`, which is missing"),
        (("tasks:\n", "order: first\ntasks:\n"), "line 4: `order` must be one of shuffled, auxiliary_first. Found: "),
        (("  pair:", "  backbone:"), "line 9: `tasks.backbone`: a task names a folder of the run"),
        (("defaults:", "default:"), "line 1: unknown key `default`. Did you mean defaults"),
        (("max_seq_length: 16", "max_seq_length: long"), "line 2: `defaults.max_seq_length`: max_seq_length='long': expected int"),
        (("${DATA}/place_train", "${DATEN}/place_train"), "line 6: .*DATEN.* has no value"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_of_tasks_is_named_with_its_line(change, message, data, tmp_path):
    assert change[0] in PLAN
    path = tmp_path / "tasks.yaml"
    path.write_text(PLAN.replace(*change, 1))
    with pytest.raises(DataError, match=message):
        read_tasks_file(str(path), {"DATA": str(data)})


def test_an_epoch_of_a_file_of_tasks(data, tmp_path):
    path, found = tmp_path / "tasks.yaml", []
    for text in ("", "ratio: 2\nmain_task: pair\n", "order: auxiliary_first\nmain_task: pair\n"):
        path.write_text(text + PLAN)
        found.append(read_tasks_file(str(path), {"DATA": str(data)}).joint.describe())
    usual = {"main_task": "pair", "ratio": None, "order": "shuffled"}
    assert found == [{}, usual | {"ratio": 2}, usual | {"order": "auxiliary_first"}]


JOINT_RECIPE = '''"""A trial: BERT whose network learns apart from its heads, and whose tasks have an order of its own."""

from xmodels.models.bert import SIZES, Bert
from xmodels.systems import bert
from xmodels.training.finetuning import FineTuning, Joint
from xmodels.training.optimizers.groups import Group

MODEL, NEEDS_WORDS = Bert, False
READING, WRITING = bert.READING, None
recipe = bert.recipe
__all__ = ["SIZES"]


def finetuning(task, network, options):
    groups = Group("heads", r"^objective\\."), Group("network", "^backbone", "sgd", "constant", learning_rate=0.1, begins=2)
    return FineTuning(groups=groups, joint=Joint("pair", 0.5), network={"dropout": 0.3})
'''


def test_a_recipe_of_a_system_holds_for_tasks_that_are_learnt_together(data, tmp_path, monkeypatch):
    listing, model = tmp_path / "listing", tmp_path / "model"
    listing.mkdir()
    (listing / "trial_joint.py").write_text(JOINT_RECIPE)
    monkeypatch.setattr(systems, "__path__", [*systems.__path__, str(listing)])
    model.mkdir()
    backbone = Bert(BertConfig(len(TOKENIZER.vocabulary), 16, 1, 2, 32, max_sequence_length=32)).initialize()
    write_model(str(model), backbone, None, TOKENIZER.files(), TOKENIZER.describe(), "trial_joint")
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    options = Options(
        tasks_file=str(data / "tasks.yaml"), set=f"DATA={data}", init_checkpoint=str(model), model_dir=str(tmp_path)
    )
    job = plan(options, strategy)
    assert [group.name for group in job.learner.optimizer.groups][:2] == ["heads", "network"]
    assert job.loaded.config.dropout == 0.3 and job.finetuning.joint == Joint("pair", 0.5)
    assert job.schedule.stages[0]["pair"] == BATCHES["pair"]
    assert sum(job.schedule.stages[0].values()) == BATCHES["pair"] + int(0.5 * BATCHES["pair"])
    path = tmp_path / "tasks.yaml"
    path.write_text("order: auxiliary_first\nmain_task: place\n" + PLAN)
    job = plan(dataclasses.replace(options, tasks_file=str(path)), strategy)
    assert job.finetuning.joint == Joint("place", order="auxiliary_first"), "what the file says comes first"
    systems.default_for.cache_clear()


def test_one_task_alone_and_tasks_that_do_not_join_are_refused(data, small_bert, tmp_path, capsys):
    path = tmp_path / "tasks.yaml"
    path.write_text(PLAN[: PLAN.index("  pair:")])
    with pytest.raises(
        DataError, match="must name two tasks at least; one alone is learnt by `xmodels finetune`. Found: place"
    ):
        read_tasks_file(str(path), {"DATA": str(data)})
    path.write_text(PLAN.replace("task: rank", "task: tag").replace("    list_size: 2\n", ""))
    assert multitask(data, small_bert, tmp_path / "run", tasks_file=path) != 0
    assert "`tasks.answer`: tag cannot be learnt beside other tasks. Take one of classify" in capsys.readouterr().err


def test_the_doctor_looks_at_each_task(data, small_bert, tmp_path, capsys):
    flags = {"set": f"DATA={data}", "init_checkpoint": small_bert, "model_dir": tmp_path / "new"}
    assert invoke("doctor", tasks_file=data / "tasks.yaml", **flags) == 0
    out = capsys.readouterr().out
    assert "3 tasks: place, pair, answer" in out and "pair: checkpoint bert, 2 layers of 48" in out
    assert not (tmp_path / "new").exists()
    (tmp_path / "tasks.yaml").write_text(PLAN.replace("    text_column: query\n    text_pair_column: candidate\n", ""))
    assert invoke("doctor", tasks_file=tmp_path / "tasks.yaml", **flags) != 0
    assert "problem  answer: labels" in capsys.readouterr().out
