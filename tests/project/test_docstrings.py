"""Docstrings of functions say what the function does: they open with a verb in the third person, such as "Returns" or "Reads"."""

import ast

import pytest

from tests.helpers.samples import ROOT

ROOMS = [p for package in ("data_pipelines", "xmodels", "launch") for p in sorted((ROOT / package).rglob("*.py"))]
# First words that end in s and are no verbs.
NOUNS = set(
    "this its axes names whether rows ids as is was has classes texts weights labels numbers files columns tokens words steps losses "
    "lines options flags scores values pieces always examples shares cells states spans bytes".split()
)


def opens_with_a_verb(docstring):
    word = docstring.split()[0].strip(".,:;`'\"")
    return word[:1].isupper() and word.endswith("s") and word.lower() not in NOUNS


def documented_functions(path):
    """Yields the functions and methods of a file that have a docstring; properties are values, so their docstrings name these."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not ast.get_docstring(node):
            continue
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield node


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_of_functions_open_with_a_verb(path):
    wrong = [
        f"{node.name}, line {node.lineno}: {ast.get_docstring(node).splitlines()[0]}"
        for node in documented_functions(path)
        if not opens_with_a_verb(ast.get_docstring(node))
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("docstring", "right"),
    [
        ("Returns the weights.", True),
        ("The weights.", False),
        ("Weights of a layer.", False),
        ("Whether it is.", False),
    ],
)
def test_verbs_are_told_from_nouns(docstring, right):
    assert opens_with_a_verb(docstring) is right
