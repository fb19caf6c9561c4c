"""`xmodels VERB`: finds the verb's file and runs it. The folder listing is the registry."""

import difflib
import importlib
import pkgutil
import sys

import launch
from launch.command import SECTIONS, guarded, listed


def verbs() -> list[str]:
    """Returns all verbs: the modules of this folder that are commands."""
    return [m.name for m in pkgutil.iter_modules(launch.__path__) if m.name not in ("command", "__main__")]


def overview() -> str:
    """Returns the text of `xmodels --help`: the verbs by what they are for."""
    commands = [importlib.import_module(f"launch.{verb}").COMMAND for verb in verbs()]
    lines = ["xmodels VERB [flags]: pretrain, fine-tune, compare and ship language models on your own text."]
    column = max(map(len, verbs()))
    for section in SECTIONS:
        summaries = {
            f"{c.name:{column}}": c.summary.split(". ")[0].rstrip(".") for c in commands if section == c.options.SECTION
        }
        lines += ["", f"{section}:", *(f"  {line}" for line in listed(summaries, 98))]
    return "\n".join([*lines, "", "`xmodels VERB --help` shows the flags of a verb and an example."])


def main() -> int:
    """Runs the verb of the command line; returns its exit code."""
    return guarded("xmodels", _main)


def _main() -> int:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(overview())
        return 0 if arguments else 2
    verb = arguments[0]
    if verb not in verbs():
        near = difflib.get_close_matches(verb, verbs(), 3, 0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(verbs())}."
        print(f"xmodels: unknown verb {verb!r}. {hint}", file=sys.stderr)
        return 2
    return importlib.import_module(f"launch.{verb}").COMMAND.main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
