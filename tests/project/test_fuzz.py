"""The fuzzer itself: what it must find is found, its damage is data, and every verb has its turn."""

import json
import os
import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_pipelines import errors
from launch.__main__ import verbs
from tests.fuzz import oracle
from tests.fuzz.mutations import mutate
from tests.fuzz.sandbox import Limits, run
from tests.fuzz.strategies import mutations, stays_inside
from tests.fuzz.targets import TARGETS, Target

FUZZ = pathlib.Path(__file__).parents[1] / "fuzz"
SEEDS = sorted((FUZZ / "seeds").iterdir())
# What no target runs, and why.
UNTRIED = {
    "evaluate_vectors": "reads three files, which test_words and test_word_vectors damage",
    "neighbours": "reads one file of vectors, which test_word_vectors damages",
    "fetch": "reads one file, by its checksum, and asks the package index; wheels that lie are tried in test_fetch",
    "quickstart": "takes minutes, and runs the other verbs",
    "tpu_preflight": "needs an extra, and runs its compiler in another process",
}
TARGET = Target("planted", "report --output_file=out/page.html", ())


def all_errors(kind=errors.ReportedError):
    return {kind}.union(*(all_errors(each) for each in kind.__subclasses__()))


def test_exit_codes_are_those_of_the_readme():
    assert {error.exit_code for error in all_errors()} <= oracle.documented_codes()
    assert oracle.documented_codes() == {0, 1, 2, 3, 4, 5, 6, 130, 141, 143}


def test_every_verb_has_a_target_or_a_reason():
    tried = {target.line.split()[0] for target in TARGETS.values()}
    assert tried | set(UNTRIED) == set(verbs()) and not tried & set(UNTRIED)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_flags_of_a_target_are_known(target, monkeypatch):
    monkeypatch.chdir(FUZZ / "seeds")
    assert isinstance(target.command.parse(target.arguments({})), target.command.options)


def test_what_was_found_names_targets_and_no_machine():
    found = [json.loads(path.read_text()) for path in (FUZZ / "finds").glob("*.json")]
    assert found and {find["case"]["target"] for find in found} <= set(TARGETS)
    assert all(set(find) == {"case", "was"} for find in found)  # a traceback would hold the paths of a machine


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.name)
def test_damage_is_data_and_comes_out_the_same(path):
    @settings(max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(mutations(path, ["vocab.txt"]), min_size=1, max_size=3))
    def check(drawn):
        again = json.loads(json.dumps(drawn))
        first, second = (mutate(path.read_bytes(), each, lambda name: name.encode()) for each in (drawn, again))
        assert first == second and isinstance(first, bytes)

    check()


@pytest.mark.parametrize(
    ("value", "inside"), [("x", True), ("../x", True), ("../../x", False), ("hf:/x", False), ("~/x", False)]
)
def test_outputs_stay_in_the_folder_of_a_case(value, inside):
    assert stays_inside(value) == inside


def spend():
    while True:
        pass


PLANTED = {
    "traceback": lambda room: {}["x"],
    "exit code": lambda room: 7,
    "silence": lambda room: 3,
    "control character": lambda room: print("\x1b[31m") or 0,
    "outside: open": lambda room: (room.parent / "elsewhere").write_text("x") and 0,
    "outside: made case/beside": lambda room: pathlib.Path("beside").write_text("x") and 0,
    "outside: deleted case/input": lambda room: os.remove("input") or 0,
    "outside: changed case/input": lambda room: pathlib.Path("input").write_text("other") and 0,
    "outside: made tmp/left": lambda room: (room / "tmp/left").write_text("x") and 0,
    "outside: os.system": lambda room: os.system("true"),
    "memory": lambda room: len(bytearray(os.urandom(1)) * 250_000_000) and 0,
    "time": lambda room: spend(),
}


@pytest.mark.parametrize("name", [*PLANTED, "nothing"])
def test_planted_faults_are_found(name, tmp_path, monkeypatch):
    room = tmp_path / "room"
    (room / "case/out").mkdir(parents=True)
    (room / "case/input").write_text("as it was")
    monkeypatch.setitem(oracle.LIMITS, False, Limits(seconds=0.5, megabytes=50))

    class Planted:
        @staticmethod
        def main(arguments):
            return PLANTED[name](room) if name in PLANTED else pathlib.Path("out/page.html").write_text("x") and 0

    found = oracle.faults(TARGET, {}, run(Planted, [], room, oracle.LIMITS[False]))
    assert any(fault.startswith(name) for fault in found) if name in PLANTED else found == []
