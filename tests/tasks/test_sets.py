"""Sets of vectors by the commands: learnt, scored, answered and served, whatever the order of their elements."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import xmodels
from tests.helpers.invocation import invoke
from xmodels.models.folder import read_weights
from xmodels.runs.loaded import load

FLAGS = {
    "init_checkpoint": "new:set_transformer/tiny", "train_batch_size": 16, "max_seq_length": 8, "distribution_strategy": "one_device",
}  # fmt: skip


def sets_of(count, seed):
    """Sets of 1 to 6 vectors; what is asked is their largest first number."""
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(draw.integers(1, 7), 2)).round(3) for _ in range(count)]


def write(path, sets, is_number):
    largest = [float(each[:, 0].max()) for each in sets]
    labels = largest if is_number else ["high" if number > 0.7 else "low" for number in largest]
    if path.suffix == ".npz":
        np.savez(path, points=np.concatenate(sets), sizes=[len(each) for each in sets], labels=np.array(labels))
    else:
        rows = zip(sets, labels, strict=True)
        path.write_text("".join(json.dumps({"points": s.tolist(), "label": label}) + "\n" for s, label in rows))
    return str(path)


@pytest.fixture(scope="module", params=["classify_sets", pytest.param("regress_sets", marks=pytest.mark.long)])
def trained(request, tmp_path_factory):
    """(task, folder) of a run, with the files of its sets."""
    folder, is_number = tmp_path_factory.mktemp(request.param), request.param == "regress_sets"
    train = write(folder / "train.npz", sets_of(256, 0), is_number)
    files = {"train_file": train, "eval_file": write(folder / "dev.jsonl", sets_of(40, 1), is_number)}
    run = {"model_dir": folder / "run", "num_train_epochs": 3}
    assert invoke("finetune", task=request.param, **files, **run, **FLAGS) == 0
    return request.param, folder


def test_a_run_has_learnt_and_scores_as_its_log_says(trained, capsys):
    task, folder = trained
    found = folder / "scores.json"
    assert invoke("evaluate", model_dir=folder / "run", test_file=folder / "dev.jsonl", output_file=found) == 0
    scores = json.loads(found.read_text())
    results = json.loads((folder / "run" / "results.json").read_text())
    name, least = ("accuracy", 0.75) if task == "classify_sets" else ("spearman", 0.7)
    assert scores[name] >= least
    assert abs(results["results"][f"evaluation {name}"] - scores[name]) < 1e-6
    described = json.loads((folder / "run" / "task.json").read_text())
    assert described["task"] == task and not load(str(folder / "run")).tokenizer.files()


def values(predictions):
    """Probabilities or scores, (N, C)."""
    rows = [list(each.probabilities.values()) if hasattr(each, "probabilities") else [each] for each in predictions]
    return np.array(rows)


def test_answers_depend_on_neither_order_nor_company(trained):
    _, folder = trained
    run, sets = xmodels.load(folder / "run"), sets_of(20, 2)
    expected = values(run.predict(sets))
    np.testing.assert_allclose(values(run.predict([each[::-1] for each in sets])), expected, atol=1e-5)
    alone = np.concatenate([values(run.predict([each])) for each in sets])
    np.testing.assert_allclose(alone, expected, atol=1e-5)
    lists = [each.tolist() for each in sets]
    np.testing.assert_allclose(values(run.predict(lists)), expected, atol=1e-5)


def test_files_of_each_form_are_answered_alike(trained, capsys):
    task, folder = trained
    sets, outputs = sets_of(10, 3), []
    for name in ("ask.npz", "ask.jsonl"):
        path, output = write(folder / name, sets, True), folder / f"{name}.out.tsv"
        assert invoke("predict", model_dir=folder / "run", input_file=path, output_file=output, overwrite=True) == 0
        outputs.append(output.read_text())
    assert outputs[0] == outputs[1] and len(outputs[0].splitlines()) == 11
    header = outputs[0].splitlines()[0].split("\t")
    assert header == (["label", "high", "low"] if task == "classify_sets" else ["score"])
    assert invoke("predict", model_dir=folder / "run", text="1 2") == 2
    assert "--text: the run answers sets of vectors" in capsys.readouterr().err
    wide = folder / "wide.jsonl"
    wide.write_text('{"points": [[1, 2, 3]]}\n')
    assert invoke("predict", model_dir=folder / "run", input_file=wide) == 3
    assert "vectors of 3 numbers, but the network reads 2" in capsys.readouterr().err


def test_a_saved_model_reads_arrays(trained):
    _, folder = trained
    assert invoke("export_model", model_dir=folder / "run", export_dir=folder / "export", serving_ops="core") == 0
    served = tf.saved_model.load(str(folder / "export" / "1")).signatures["serving_default"]
    sets = sets_of(3, 4)
    points, sizes = np.full((3, 9, 2), 50.0, np.float32), np.array([len(each) for each in sets], np.int32)
    for row, each in enumerate(sets):
        points[row, : len(each)] = each[::-1]
    found = served(points=tf.constant(points), sizes=tf.constant(sizes))
    found = found["probabilities"].numpy() if "probabilities" in found else found["score"].numpy()[:, None]
    np.testing.assert_allclose(found, values(xmodels.load(folder / "run").predict(sets)), atol=1e-5)
    assert "input `points` | float32 (B, L, 2)" in (folder / "export" / "README.md").read_text()


@pytest.mark.long
def test_a_run_goes_on_from_another_and_a_finished_one_says_so(trained, capsys):
    task, folder = trained
    files = {"train_file": folder / "train.npz", "eval_file": folder / "dev.jsonl"}
    flags = FLAGS | {"init_checkpoint": folder / "run", "num_train_epochs": 0.1}
    assert invoke("finetune", task=task, **files, model_dir=folder / "next", **flags, init_head=True) == 0
    assert "from random weights" not in capsys.readouterr().out
    again = {"model_dir": folder / "run", "num_train_epochs": 3}
    assert invoke("finetune", task=task, **files, **again, **FLAGS) == 0
    assert invoke("finetune", task=task, **files, **again, **FLAGS | {"seed": 5}) == 2


@pytest.mark.parametrize(
    ("line", "flags", "code", "message"),
    [
        ({"points": [[1, 2], [3]], "label": "low"}, {}, 3, "train.jsonl, line 3: ragged vectors"),
        ({"points": [["1", 2]], "label": "low"}, {}, 3, "train.jsonl, line 3: a vector holds '1'"),
        ({"points": [[1, 2]] * 9, "label": "low"}, {}, 2, "--max_seq_length=8: .*line 3 has 9 vectors.*--max_seq_length=9"),
        (None, {"init_checkpoint": "new:bert/tiny"}, 2, "reads sets of vectors, which a network of the kind bert does not"),
        (None, {"text_column": "x"}, 2, "--text_column: --task=classify_sets has no such flag; name the vectors with"),
        (None, {"vocab_file": "x"}, 2, "--vocab_file: --task=classify_sets has no such flag; it reads no texts"),
        (None, {"label_column": "kind"}, 3, "line 1: no label"),
        (None, {"task": "classify", "points_column": "x"}, 2, "--points_column: --task=classify has no such flag"),
        (None, {"crf": True}, 2, "--crf: --task=classify_sets has no such flag"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_is_refused(tmp_path, capsys, line, flags, code, message):
    path = tmp_path / "train.jsonl"
    write(path, sets_of(2, 0), False)
    with path.open("a") as file:
        file.write(json.dumps(line or {"points": [[0.1, 0.2]], "label": "other"}) + "\n")
    given = {"task": "classify_sets", "train_file": path, "model_dir": tmp_path / "run"} | FLAGS | flags
    assert invoke("finetune", **given) == code
    shown = capsys.readouterr().err
    assert re.search(message, shown), shown


def test_sets_that_cannot_be_used_may_be_left_out(tmp_path, capsys):
    path = tmp_path / "train.jsonl"
    write(path, sets_of(40, 0), False)
    with path.open("a") as file:
        file.write('{"points": [[1, 2], [3]], "label": "low"}\n')
    given = {
        "task": "classify_sets",
        "train_file": path,
        "model_dir": tmp_path / "run",
        "on_bad_row": "skip",
        "dry_run": True,
    }
    assert invoke("finetune", **given, **FLAGS) == 0
    assert "1 row(s) cannot be used and are left out" in capsys.readouterr().out


@pytest.mark.long
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(tmp_path):
    train, flags = (
        write(tmp_path / "train.npz", sets_of(64, 0), False),
        FLAGS | {"num_train_epochs": 1, "save_checkpoints_steps": 2},
    )
    run = {"task": "classify_sets", "train_file": train} | flags
    assert invoke("finetune", **run, model_dir=tmp_path / "whole") == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parted")
    for gone in ("checkpoints/step_00000004", "backbone"):
        shutil.rmtree(tmp_path / "parted" / gone)
    assert invoke("finetune", **run, model_dir=tmp_path / "parted", resume="must") == 0
    first, second = (read_weights(tmp_path / name / "backbone/weights.safetensors") for name in ("whole", "parted"))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
