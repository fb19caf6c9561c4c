"""Scores of a file that tasks share are those of one process; predictions come back from the files of parts."""

import json
import math
import os
import shutil

import pytest

from data_pipelines.errors import DataError, UsageError
from tests.helpers.invocation import invoke
from tests.helpers.scored_pairs import write_scored_pairs
from tests.tasks.test_prediction_forms import CASES
from xmodels.jobs.evaluate.part_files import as_json, from_json, read_predictions, write_predictions
from xmodels.jobs.evaluate.shares import check_task
from xmodels.tasks.tag.answer import Tagged


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Flags of `evaluate` for a network of random weights and 11 pairs with numbers."""
    return write_scored_pairs(tmp_path_factory.mktemp("run"))


def scores_of(path) -> dict:
    return json.loads(path.read_text("utf-8"))


def test_who_ends_last_scores_the_predictions_of_all(given, tmp_path, capsys):
    assert invoke("evaluate", output_file=tmp_path / "alone.json", **given) == 0
    told = capsys.readouterr().out
    shared = given | {"output_file": tmp_path / "shared.json", "num_tasks": 3}
    for index in (2, 0):
        assert invoke("evaluate", task_index=index, **shared) == 0
    assert "of 3 are missing (--task_index=1)" in capsys.readouterr().out and not os.path.exists(shared["output_file"])
    os.remove(tmp_path / "shared.json.parts/part-00000-of-00003.json.done")  # was killed; what is whole stays
    assert invoke("evaluate", task_index=1, **shared) == 0 and not os.path.exists(shared["output_file"])
    assert invoke("evaluate", task_index=0, **shared) == 0
    assert capsys.readouterr().out.count(told.splitlines()[0]) == 1  # the scores are told once
    alone, joined = (scores_of(tmp_path / f"{name}.json") for name in ("alone", "shared"))
    assert joined.keys() == alone.keys() and joined["pearson"] == pytest.approx(alone["pearson"], abs=1e-5)
    assert not os.path.exists(f"{shared['output_file']}.parts")


def test_what_does_not_fit_is_told(given, tmp_path, capsys):
    asked = given | {"output_file": tmp_path / "out.json", "num_tasks": 2, "task_index": 0}
    for flags, message in (
        ({"output_file": None}, "--num_tasks: shares --test_file and joins --output_file"),
        ({"num_tasks": 20}, "--test_file has only 11 rows"),
        ({"task": "language_model"}, "--task_index: --task=language_model has no such flag"),
    ):
        wanted = {name: value for name, value in (asked | flags).items() if value is not None}
        assert invoke("evaluate", **wanted) == 2, flags
        assert message in capsys.readouterr().err
    shutil.rmtree(f"{asked['output_file']}.parts", ignore_errors=True)
    assert invoke("evaluate", **asked) == 0
    part = tmp_path / "out.json.parts/part-00000-of-00002.json"
    part.write_text(part.read_text("utf-8").split("\n", 1)[1], "utf-8")
    assert invoke("evaluate", **asked | {"task_index": 1}) != 0
    assert "holds 10 predictions, --test_file has 11 inputs" in capsys.readouterr().err
    (tmp_path / "out.json").write_text("{}")
    assert invoke("evaluate", **asked) == 2 and "exists. Remove it" in capsys.readouterr().err


def test_tasks_that_measure_time_are_not_shared():
    with pytest.raises(UsageError, match="--task=fast_classify is scored by one process"):
        check_task("fast_classify")


FURTHER = {
    "tagged": Tagged("a b", [(0, 1), (2, 3)], ["B-x", "O"], [0.5, math.pi], []),
    "pairs": {"": 1, "a": (2, None)},
    "numbers_as_names": {1: "a"},
}


@pytest.mark.parametrize(
    "prediction", [*(case[3] for case in CASES.values()), *FURTHER.values()], ids=[*CASES, *FURTHER]
)
def test_predictions_come_back(prediction, tmp_path):
    write_predictions(str(tmp_path / "part"), [prediction])
    (found,) = read_predictions(str(tmp_path / "part"))
    assert type(found) is type(prediction) and str(as_json(found)) == str(as_json(prediction))


@pytest.mark.parametrize(
    "kind", ["os:system", "xmodels.tasks.base.answer:compile_answer", "xmodels.nowhere:Class", "", 3]
)
def test_a_part_makes_nothing_but_dataclasses_of_ours(kind, tmp_path):
    (tmp_path / "part").write_text(json.dumps({"": kind, "label": "a"}) + "\n", "utf-8")
    with pytest.raises(DataError, match="part, line 1: is no prediction"):
        list(read_predictions(str(tmp_path / "part")))


def test_values_that_json_lacks_are_refused():
    with pytest.raises(TypeError, match="no part of a file can keep"):
        as_json({"a": object()})
    assert from_json(as_json((1, [2.5]))) == (1, [2.5])
