"""Answers of two devices are those of one: predictions, scores and vectors, also where rows are no multiple of the devices."""

import json

import numpy as np
import pytest

from tests.helpers.invocation import invoke
from tests.helpers.scored_pairs import write_scored_pairs
from xmodels.retrieval import vectors

BOTH = {"distribution_strategy": "mirrored", "num_virtual_devices": 2}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A network of random weights, 11 pairs with numbers, and 7 lines."""
    path = tmp_path_factory.mktemp("run")
    write_scored_pairs(path)
    (path / "lines.txt").write_text("".join(f"ann {'in ' * n}york\n" for n in range(7)), "utf-8")
    return path


def test_predictions_and_scores(given, tmp_path):
    for name, devices in (("one", {}), ("both", BOTH)):
        asked = {"model_dir": given / "run", "batch_size": 4, **devices}
        assert invoke("predict", input_file=given / "pairs.tsv", output_file=tmp_path / f"{name}.jsonl", **asked) == 0
        assert invoke("evaluate", test_file=given / "pairs.tsv", output_file=tmp_path / f"{name}.json", **asked) == 0
    one, both = (
        [json.loads(line)["similarity"] for line in (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("one", "both")
    )
    assert one == pytest.approx(both, abs=1e-5) and len(set(one)) > 1
    one, both = (json.loads((tmp_path / f"{name}.json").read_text())["pearson"] for name in ("one", "both"))
    assert one == pytest.approx(both, abs=1e-4)


@pytest.mark.long
def test_vectors(given, tmp_path):
    for name, devices in (("one", {}), ("both", BOTH)):
        asked = {"model_dir": given / "run", "input_file": given / "lines.txt", "batch_size": 4, **devices}
        assert invoke("encode", output_file=tmp_path / f"{name}.npy", **asked) == 0
    one, both = (
        np.concatenate([part for _, part in vectors.read(str(tmp_path / f"{name}.npy")).parts()])
        for name in ("one", "both")
    )
    np.testing.assert_allclose(one, both, atol=1e-5)
    assert len(one) == 7


def test_virtual_devices_need_the_strategy(given, capsys):
    assert invoke("predict", model_dir=given / "run", text="ann", num_virtual_devices=2) == 2
    assert "only --distribution_strategy=mirrored answers on several devices" in capsys.readouterr().err


def test_what_one_device_scores_has_no_such_flag(given, capsys):
    asked = {"model_dir": given / "run", "test_file": given / "lines.txt", "task": "language_model"}
    assert invoke("evaluate", **asked, **BOTH) == 2
    assert "has no such flag" in capsys.readouterr().err
