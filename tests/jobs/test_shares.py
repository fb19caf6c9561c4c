"""Tasks that share a file: their parts joined are what one process writes; parts that are whole stay; what does not fit is told."""

import json
import os
import shutil

import numpy as np
import pytest

from tests.conversion.test_sentence_transformers import folder_of
from tests.helpers.invocation import invoke
from xmodels.jobs import shares
from xmodels.jobs.convert_checkpoint.sentence_transformers import to_run
from xmodels.retrieval import vectors

PAIRS = [(f"ann {n} in york", "bob in rome" if n % 3 else f"who {n}") for n in range(11)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of random weights."""
    path = tmp_path_factory.mktemp("run")
    to_run(str(folder_of(path / "made", dense=False)), str(path / "siamese"))
    return path / "siamese"


def write_pairs(folder):
    lines = [f"{first}\t{second}\n" for first, second in PAIRS]
    (folder / "pairs.tsv").write_text("".join(["text\ttext_pair\n", *lines]), "utf-8")
    (folder / "lines.txt").write_text("".join(f"{first}\n" for first, _ in PAIRS), "utf-8")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_the_parts_of_a_table_are_joined_in_the_order_of_its_rows(ending, run, tmp_path, capsys):
    write_pairs(tmp_path)
    asked = {"model_dir": run, "input_file": tmp_path / "pairs.tsv"}
    assert invoke("predict", output_file=tmp_path / f"alone.{ending}", **asked) == 0
    shared = asked | {"output_file": tmp_path / f"shared.{ending}", "num_tasks": 3}
    for index in (2, 0):
        assert invoke("predict", task_index=index, **shared) == 0
    assert "of 3 are missing (--task_index=1); who ends last writes" in capsys.readouterr().out
    assert not os.path.exists(shared["output_file"])
    assert invoke("predict", task_index=1, **shared) == 0
    assert not os.path.exists(f"{shared['output_file']}.parts")
    alone, joined = ((tmp_path / f"{name}.{ending}").read_text("utf-8").splitlines() for name in ("alone", "shared"))
    assert len(joined) == len(alone) == len(PAIRS) + (ending == "tsv")
    if ending == "tsv":
        assert alone.pop(0) == joined.pop(0) == "similarity"
    read = float if ending == "tsv" else lambda line: json.loads(line)["similarity"]
    assert list(map(read, joined)) == pytest.approx(list(map(read, alone)), abs=1e-5)
    assert len(set(joined)) > 1  # so that an order is seen


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_vectors_of_parts_are_those_of_all_texts(ending, run, tmp_path):
    write_pairs(tmp_path)
    asked = {"model_dir": run, "input_file": tmp_path / "lines.txt"}
    assert invoke("encode", output_file=tmp_path / f"alone.{ending}", **asked) == 0
    for index in (1, 0):
        assert invoke("encode", output_file=tmp_path / f"shared.{ending}", task_index=index, num_tasks=2, **asked) == 0
    alone, joined = (vectors.read(str(tmp_path / f"{name}.{ending}")) for name in ("alone", "shared"))
    assert alone.description.texts_sha256 == joined.description.texts_sha256 and joined.description.count == len(PAIRS)
    first, second = (list(each.parts()) for each in (alone, joined))
    np.testing.assert_allclose(*(np.concatenate([part for _, part in each]) for each in (first, second)), atol=1e-6)
    if ending == "parquet":
        assert [text for texts, _ in second for text in texts] == [first for first, _ in PAIRS]
    assert not (tmp_path / f"shared.{ending}.parts").exists()


def test_a_part_that_is_whole_is_kept_and_one_that_was_cut_is_made_again(run, tmp_path, capsys):
    write_pairs(tmp_path)
    asked = {
        "model_dir": run,
        "input_file": tmp_path / "pairs.tsv",
        "output_file": tmp_path / "out.tsv",
        "num_tasks": 2,
    }
    assert invoke("predict", task_index=0, **asked) == 0
    part = tmp_path / "out.tsv.parts/part-00000-of-00002.tsv"
    written = part.stat().st_mtime_ns
    assert invoke("predict", task_index=0, **asked) == 0 and part.stat().st_mtime_ns == written
    os.remove(f"{part}.done")
    part.write_text("half", "utf-8")
    assert invoke("predict", task_index=0, **asked) == 0 and "half" not in part.read_text("utf-8")
    assert invoke("predict", task_index=1, **asked) == 0
    assert invoke("predict", task_index=1, **asked) == 2 and "exists" in capsys.readouterr().err


def test_flags_that_do_not_fit_are_told(run, tmp_path, capsys):
    write_pairs(tmp_path)
    asked = {"model_dir": run, "input_file": tmp_path / "pairs.tsv", "output_file": tmp_path / "out.tsv"}
    for flags, message in (
        ({"task_index": 0}, "--task_index: give --num_tasks too"), ({"num_tasks": 2}, "--num_tasks: give --task_index too"),
        ({"num_tasks": 2, "task_index": 2}, "--num_tasks=2 are numbered from 0 to 1"),
        ({"num_tasks": 20, "task_index": 0}, "has only 11 rows"),
        ({"num_tasks": 2, "task_index": 0, "overwrite": True}, "a task would delete what others make"),
    ):  # fmt: skip
        assert invoke("predict", **asked | flags) == 2, flags
        assert message in capsys.readouterr().err
    shutil.rmtree(tmp_path / "out.tsv.parts")
    assert invoke("predict", task_index=0, num_tasks=2, **asked) == 0
    assert invoke("predict", task_index=1, num_tasks=3, **asked) == 2
    assert "begun with another num_tasks: 2 then, 3 now" in capsys.readouterr().err


def test_a_task_whose_parts_another_one_has_joined_says_nothing_of_missing_ones(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.tsv"
    write = shares.write_json

    def mark_and_let_the_other_join(path, value):
        write(path, value)
        if path.endswith(shares.MARK):
            shutil.rmtree(f"{out}.parts")
            out.write_text("all", "utf-8")

    monkeypatch.setattr(shares, "write_json", mark_and_let_the_other_join)
    share = shares.Share(0, 2, str(out), {})
    assert share.work(lambda path: None, pytest.fail) and out.read_text("utf-8") == "all"
    assert "missing" not in capsys.readouterr().out
