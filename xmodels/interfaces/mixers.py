"""What `--help` says of the mixers in `layers/attention`, read from their files without importing them."""

import ast
import importlib.util
import pathlib


def summaries() -> dict[str, str]:
    """Returns what each mixer is: the first paragraph of its file, and its numbers with their defaults."""
    spec = importlib.util.find_spec("xmodels.layers")
    folders = (spec and spec.submodule_search_locations) or ()
    files = sorted(path for folder in folders for path in pathlib.Path(folder, "attention").glob("*.py"))
    found = {path.stem: _summary(ast.parse(path.read_text(encoding="utf-8"))) for path in files}
    return {name: text for name, text in found.items() if text}


def _summary(tree: ast.Module) -> str | None:
    """Returns the summary of a file; None if it defines no mixer, which is a class that says what it `supports`."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if not any("supports" in _class_assignments(node) for node in classes):
        return None
    paragraph = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    assigned = [pair for node in classes for pair in _class_assignments(node).items()]
    numbers = [_number(name, value) for name, value in assigned if isinstance(value, ast.Call) and _is_number(value)]
    return " ".join([paragraph, *numbers])


def _class_assignments(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    """Returns what the body of a class assigns to names."""
    plain = [(each.targets[0], each.value) for each in node.body if isinstance(each, ast.Assign)]
    typed = [(each.target, each.value) for each in node.body if isinstance(each, ast.AnnAssign)]
    return {target.id: value for target, value in [*plain, *typed] if isinstance(target, ast.Name)}


def _is_number(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "number"


def _number(name: str, call: ast.Call) -> str:
    default, help = (ast.literal_eval(argument) for argument in call.args)
    return f"--set=mixer.{name}={default}: {help}."
