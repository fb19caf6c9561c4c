"""What an installed package holds besides its modules."""

import ast

import pytest

from tests.helpers.listings import ROOT


@pytest.mark.parametrize("package", ["xmodels", "data_pipelines", "launch"])
def test_packages_say_that_they_are_typed(package):
    words = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.keyword)]
    (data,) = (ast.literal_eval(word.value) for word in words if word.arg == "package_data")
    assert (ROOT / package / "py.typed").is_file() and "py.typed" in data[package]
