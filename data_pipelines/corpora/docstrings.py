"""Real English prose that is on every machine: the docstrings of the Python installation and its packages."""

import ast
import dataclasses
import importlib.util
import inspect
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator

# Packages that our own installation brings along; "python" stands for the standard library.
PACKAGES = ("python", "numpy", "matplotlib", "tensorflow", "keras")
_SKIPPED = re.compile(r"(^|/)(tests?|testing|idlelib|site-packages|lib2to3|__pycache__|_vendor)(/|$)|_pb2|_test\.py$")


def folder_of(package: str) -> str | None:
    """Returns where the source of a package lies, without importing it; None where it is not installed."""
    if package == "python":
        return sysconfig.get_paths()["stdlib"]
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def source_files(package: str) -> list[str]:
    """Returns the Python files of a package, without tests and generated code, sorted."""
    folder = folder_of(package)
    if folder is None:
        return []
    found = []
    for place, _, names in os.walk(folder):
        inside = os.path.relpath(place, folder)
        found += [os.path.join(inside, n) for n in names if n.endswith(".py") and not _SKIPPED.search(f"{inside}/{n}")]
    return [os.path.join(folder, name) for name in sorted(found)]


def docstrings(path: str) -> Iterator[str]:
    """Yields the docstrings of a file, in order; nothing for a file that does not parse."""
    try:
        with open(path, encoding="utf-8") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in other people's strings
            tree = ast.parse(file.read())
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield inspect.cleandoc(text)


def prose(docstring: str) -> list[str]:
    """Returns the paragraphs of a docstring that are prose: no code, doctests, tables or lists of parameters."""
    kept = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"```.*?(```|$)", "", docstring, flags=re.S)):
        lines = paragraph.splitlines()
        if lines and not lines[0].startswith((" ", "\t", ">>>", "-", "*", "|", "..", "+", "@", "#")):
            text = re.sub(r"\s+", " ", re.sub(r":\w+:|`+|\*\*?", "", " ".join(lines))).strip()
            words = re.findall(r"[A-Za-z]+", text)
            letters = sum(map(len, words))
            if "----" in text or re.match(r"[\w, ]+ ?:|Args|Returns|Raises", text):
                continue  # the list of parameters of a function
            if len(words) >= 6 and letters > 0.7 * len(text.replace(" ", "")) and text[-1] in ".!?":
                kept.append(text)
    return kept


@dataclasses.dataclass(frozen=True)
class Module:
    """The prose of one source file; `paragraphs` hold no text that an earlier module had."""

    package: str
    path: str
    paragraphs: list[str]


def collect(most_characters: int = 1_000_000, progress: Callable[[int], None] = lambda num_files: None) -> list[Module]:
    """Returns the prose of all packages, at most `most_characters` of each."""
    modules, seen = [], set()
    for package in PACKAGES:
        size = 0
        files = source_files(package)
        random.Random(package).shuffle(files)  # the first files of a large package would be all alike
        for path in files:
            progress(1)
            paragraphs = [p for d in docstrings(path) for p in prose(d) if not (p in seen or seen.add(p))]
            if paragraphs and size < most_characters:
                size += sum(map(len, paragraphs))
                modules.append(Module(package, path, paragraphs))
            if size >= most_characters:
                break
    return modules
