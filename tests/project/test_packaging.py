"""What an installed package holds besides its modules."""

import ast
import importlib

import pytest

from tests.helpers.listings import ROOT
from xmodels import api


@pytest.mark.parametrize("package", ["xmodels", "data_pipelines", "launch"])
def test_packages_say_that_they_are_typed(package):
    words = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.keyword)]
    (data,) = (ast.literal_eval(word.value) for word in words if word.arg == "package_data")
    assert (ROOT / package / "py.typed").is_file() and "py.typed" in data[package]


def stubs():
    """The functions that `xmodels/__init__.pyi` declares, with what they return."""
    tree = ast.parse((ROOT / "xmodels/__init__.pyi").read_text(encoding="utf-8"))
    return {node.name: ast.unparse(node.returns) for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_checkers_see_the_verbs_that_python_has():
    assert sorted(stubs()) == api.verbs()


@pytest.mark.parametrize(("verb", "returned"), stubs().items())
def test_checkers_see_what_the_job_of_a_verb_returns(verb, returned):
    module, _, function = importlib.import_module(api.options_module(verb)).Options.JOB.partition(":")
    tree = ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8"))
    (job,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    assert returned == ast.unparse(job.returns)
