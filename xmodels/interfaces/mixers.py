"""What `--help` says of the mixers in `layers/attention`, read from their files without importing them."""

import ast
import importlib.util
import pathlib


def summaries() -> dict[str, str]:
    """Returns what each mixer is: the first paragraph of its file, and its numbers with their defaults."""
    folder = pathlib.Path(importlib.util.find_spec("xmodels.layers").submodule_search_locations[0], "attention")
    found = {path.stem: _summary(ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.py"))}
    return {name: text for name, text in found.items() if text}


def _summary(tree: ast.Module) -> str | None:
    """Returns the summary of a file; None if it defines no mixer, which is a class that says what it `supports`."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if not any("supports" in _assigned(node) for node in classes):
        return None
    paragraph = " ".join(ast.get_docstring(tree).partition("\n\n")[0].split())
    numbers = [_number(*each) for node in classes for each in _assigned(node).items() if _is_number(each[1])]
    return " ".join([paragraph, *numbers])


def _assigned(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Returns what the body of a class assigns to names."""
    plain = {each.targets[0].id: each.value for each in node.body if isinstance(each, ast.Assign)}
    return plain | {each.target.id: each.value for each in node.body if isinstance(each, ast.AnnAssign)}


def _is_number(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "number"


def _number(name: str, call: ast.Call) -> str:
    default, help = (ast.literal_eval(argument) for argument in call.args)
    return f"--set=mixer.{name}={default}: {help}."
