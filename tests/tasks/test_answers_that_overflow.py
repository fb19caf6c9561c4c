"""Weights that are finite, but so large that a network cannot compute with them, give an error and no answer."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.helpers.invocation import invoke
from tests.helpers.small_models import network
from tests.helpers.small_served import small_run
from xmodels.jobs.evaluate.run import without_nan


def enlarge(folder, part):
    """Makes the weights of a part as large as float32 has them, and all of them positive."""
    values = load_file(folder / "weights.safetensors")
    for name, value in values.items():
        if part in name:
            values[name] = np.full(value.shape, 3e38, value.dtype)
    save_file(values, folder / "weights.safetensors")
    (folder / "SHA256SUMS").unlink()


@pytest.mark.parametrize(
    ("task", "part"),
    [("classify", "objective"), ("classify", "backbone.embedding"), ("regress", "objective"), ("tag", "objective"),
     ("answer_span", "objective"), ("rank", "objective"), ("siamese", "backbone")],
)  # fmt: skip
def test_a_task_gives_no_answer_that_is_not_finite(tmp_path, capsys, task, part):
    run = small_run(task, tmp_path)
    enlarge(run / "backbone", part)
    question = {"text": "ann lives in york"}
    if task in ("answer_span", "siamese"):
        question["text_pair"] = "where does ann live ?"
    if task == "rank":
        (tmp_path / "lists.jsonl").write_text('{"query": "ann", "candidates": ["rome", "york"]}\n')
        question = {"input_file": tmp_path / "lists.jsonl", "output_file": tmp_path / "found.jsonl"}
    code = invoke("predict", model_dir=run, **question)
    error = capsys.readouterr().err
    assert code == 4 and "NaN or infinity in" in error, error
    assert not (tmp_path / "found.jsonl").exists()


def test_a_network_that_writes_writes_nothing(tmp_path, capsys):
    network("gpt", tmp_path)
    enlarge(tmp_path, "norm")
    for decoding in ({"temperature": 0}, {"temperature": 1}, {"num_beams": 2}):
        code = invoke("generate", model_dir=tmp_path, prompt="ann lives", max_new_tokens=3, **decoding)
        error = capsys.readouterr().err
        assert code == 4 and "NaN or infinity in the logits" in error, error


def test_a_language_model_gets_no_score(tmp_path, capsys):
    network("gpt", tmp_path)
    enlarge(tmp_path, "norm")
    (tmp_path / "text.txt").write_text("ann lives in york\n")
    code = invoke("evaluate", model_dir=tmp_path, test_file=tmp_path / "text.txt", output_file=tmp_path / "scores.json")
    assert code == 4 and "NaN or infinity" in capsys.readouterr().err and not (tmp_path / "scores.json").exists()


def test_scores_that_are_not_defined_are_null_in_json():
    found = without_nan(
        {"pearson": float("nan"), "by label": {"a": float("inf"), "b": 1.0}, "curve": [0.5, float("-inf")]}
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "pearson": None,
        "by label": {"a": None, "b": 1.0},
        "curve": [0.5, None],
    }
