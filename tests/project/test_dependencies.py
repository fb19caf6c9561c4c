"""What the project needs: bounds that the lock keeps, and the question about known vulnerabilities."""

import ast
import json
import pathlib
import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import audit

ROOT = pathlib.Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = re.findall(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)[^\n]*((?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+)", LOCK, re.MULTILINE
)


def requirements():
    words = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.keyword)]
    (needed,) = (word.value for word in words if word.arg == "install_requires")
    return [Requirement(text) for text in ast.literal_eval(needed)]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_the_lock_is_within_the_bounds_of_the_package(requirement):
    versions = [
        version for name, version, _ in PINNED if canonicalize_name(name) == canonicalize_name(requirement.name)
    ]
    assert versions, f"requirements.lock lacks {requirement.name}: run `make lock`"
    assert all(Version(version) in requirement.specifier for version in versions), "run `make lock`"


def test_the_lock_pins_each_file_and_names_no_registry():
    assert len(PINNED) == len(re.findall(r"^[^\s#]", LOCK, re.MULTILINE))
    assert "://" not in LOCK and "index-url" not in LOCK and "find-links" not in LOCK


ANSWERS = {
    "known": (
        {"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]},
        1,
        "a 1: X-1, fixed in 2",
    ),
    "none": ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, 0, "0 known vulnerabilities in 1 of 1"),
    "unknown": ({"dependencies": [{"name": "a", "skip_reason": "not found"}]}, 0, "skipped"),
    "offline": ("", 0, "skipped"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_audit_fails_for_vulnerabilities_and_for_nothing_else(name, tmp_path, capsys):
    answer, code, said = ANSWERS[name]
    (tmp_path / "answer").write_text(json.dumps(answer) if answer else "")
    program = "import pathlib, sys; sys.stdout.write(pathlib.Path(sys.argv[1]).read_text())"
    assert audit.main((sys.executable, "-c", program, str(tmp_path / "answer"))) == code
    assert said in capsys.readouterr().out
