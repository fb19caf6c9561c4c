"""What exists is unchanged: bytes of records, losses, weights, states, answers and signatures are those of the goldens.

Keys, files and signatures may be added; what was there must stay. The goldens stand in `golden/unchanged`: `facts.json`, and two run
folders as they were written then. `python -m tests.project.test_unchanged` writes the goldens anew (`... facts` leaves the run
folders as they are). Do so only where a change is meant, and say in the same commit which and why.
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

from tests.helpers import small_runs

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/unchanged"
OLD_RUNS = {"classifier": small_runs.use_classifier, "gpt2": small_runs.use_generator}
SERVED = ["classifier", "gpt2", "transformer"]
long = functools.partial(pytest.param, marks=pytest.mark.long)
LEFT_OUT = shutil.ignore_patterns("tensorboard", "report.html", "environment.json", "peak.json")


@pytest.fixture(scope="module", autouse=True)
def working_folder(tmp_path_factory):
    with contextlib.chdir(tmp_path_factory.mktemp("unchanged")):
        yield


@functools.cache
def golden():
    return json.loads((GOLDEN / "facts.json").read_text("utf-8"))


def assert_kept(found, expected, place):
    """All that is expected is there; numbers are equal but for rounding."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), place
        for name, value in expected.items():
            assert name in found, f"{place}: no {name!r} any more"
            assert_kept(found[name], value, f"{place}/{name}")
    elif isinstance(expected, list) and not place.endswith("files"):
        assert isinstance(found, list) and len(found) == len(expected), f"{place}: {found}, expected {expected}"
        for i, value in enumerate(expected):
            assert_kept(found[i], value, f"{place}/{i}")
    elif isinstance(expected, list):
        assert set(expected) <= set(found), f"{place}: {sorted(set(expected) - set(found))} are missing"
    elif isinstance(expected, float):
        # A bias of keys moves all scores of a query alike, so its gradient is rounding alone, which differs between processors; Adam
        # makes steps of it that are as large as the learning rate.
        assert found == pytest.approx(expected, rel=2e-5, abs=1e-2 if "key.bias" in place else 2e-6), place
    else:
        assert found == expected, place


def use_old(run):
    shutil.copytree(GOLDEN / run, f"old-{run}", dirs_exist_ok=True)
    return OLD_RUNS[run](f"old-{run}")


def resume_old():
    shutil.copytree(GOLDEN / "classifier", "resumed")
    return small_runs.resume("resumed")


def test_vocabularies():
    assert_kept(small_runs.make_texts(), golden()["vocabularies"], "vocabularies")


@pytest.mark.parametrize("name", small_runs.RECORDS)
def test_records(name):
    assert_kept(small_runs.make_records(name), golden()["records"][name], name)


@pytest.mark.parametrize("system", [name if name == "bert" else long(name) for name in small_runs.SYSTEMS])
def test_pretraining(system):
    assert_kept(small_runs.pretrain(system), golden()["pretraining"][system], system)


def test_fine_tuning():
    assert_kept(small_runs.finetune(), golden()["fine_tuning"], "fine_tuning")


@pytest.mark.long
@pytest.mark.parametrize("run", [name if name == "classifier" else long(name) for name in SERVED])
def test_what_is_served(run):
    small_runs.finetune() if run == "classifier" else small_runs.pretrain(run)
    assert_kept(small_runs.export(run), golden()["served"][run], run)


@pytest.mark.parametrize("run", OLD_RUNS)
def test_a_run_folder_of_old_is_used(run):
    small_runs.make_texts()
    assert_kept(use_old(run), golden()["old"][run], run)


def test_a_fine_tuning_of_old_goes_on():
    assert_kept(resume_old(), golden()["resumed"], "resumed")


def _write(with_runs):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        facts = {"vocabularies": small_runs.make_texts()}
        facts["records"] = {name: small_runs.make_records(name) for name in small_runs.RECORDS}
        facts["pretraining"] = {system: small_runs.pretrain(system) for system in small_runs.SYSTEMS}
        facts["fine_tuning"] = small_runs.finetune()
        for run in OLD_RUNS if with_runs else ():
            shutil.rmtree(GOLDEN / run, ignore_errors=True)
            shutil.copytree(run, GOLDEN / run, ignore=LEFT_OUT)
        if with_runs:
            shutil.rmtree(GOLDEN / "gpt2/checkpoints")
        facts["served"] = {run: small_runs.export(run) for run in SERVED}
        facts["old"] = {run: use_old(run) for run in OLD_RUNS}
        facts["resumed"] = resume_old()
    (GOLDEN / "facts.json").write_text(_lines(facts) + "\n", "utf-8")


def _lines(value, depth=0):
    """JSON with a line for each entry of the first four levels."""
    if depth == 4 or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = (f"{' ' * (depth + 1)}{json.dumps(name)}: {_lines(entry, depth + 1)}" for name, entry in value.items())
    return "{\n" + ",\n".join(inner) + f"\n{' ' * depth}}}"


if __name__ == "__main__":
    os.makedirs(GOLDEN, exist_ok=True)
    _write(with_runs=sys.argv[1:] != ["facts"])
