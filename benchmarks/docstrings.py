"""English text that every machine with this project has: the docstrings of installed packages, each once.

    python -m benchmarks.docstrings --output=docstrings.txt

For speeds on tens of megabytes, where no corpus is at hand. What it says is technical, so it is no measure of quality.
"""

import argparse
import ast
import glob
import os
import sysconfig
import warnings
from collections.abc import Iterator

from data_pipelines.files import whole_file

SHORTEST = 40  # characters
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(folder: str) -> Iterator[str]:
    """The docstrings of the Python files of a folder, in the order of paths; those that stood before are left out."""
    seen = set()
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.py"), recursive=True)):
        try:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
        except (SyntaxError, ValueError, RecursionError):  # of templates, or in other encodings
            continue
        for node in ast.walk(tree):
            found = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if found and len(found) >= SHORTEST and found not in seen:
                seen.add(found)
                yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # what the packages' own sources are warned of
    with whole_file(options.output, "w") as file:
        file.writelines(f"{text}\n\n" for text in docstrings(sysconfig.get_path("purelib")))
    print(f"{options.output}: {os.path.getsize(options.output):,} bytes")


if __name__ == "__main__":
    main()
