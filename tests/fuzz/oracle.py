"""What must hold of every case, whatever was damaged."""

import os
import re
from pathlib import Path

from tests.fuzz.sandbox import Limits, Outcome
from tests.fuzz.targets import OUTPUTS, Target

README = Path(__file__).parents[2] / "README.md"
LIMITS = {
    False: Limits(seconds=20, megabytes=500),
    True: Limits(seconds=60, megabytes=1500),
}  # without and with a network
ELSEWHERE = {
    1,
    130,
    141,
    143,
}  # documented, but here nobody sends a signal, kills a worker, or closes what reads the output
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TEMPORARY = re.compile(r"\.[0-9a-f]{12}\.partial$")


def documented_codes() -> set[int]:
    """The exit codes of the README's table."""
    table = README.read_text(encoding="utf-8").partition("| code | meaning |")[2].partition("\n\n")[0]
    return {
        int(code) for row in table.splitlines() for code in re.findall(r"\d+", row.split("|")[1] if "|" in row else "")
    }


CODES = documented_codes() - ELSEWHERE


def faults(target: Target, flags: dict[str, str], outcome: Outcome) -> list[str]:
    """What is wrong with how a case ended, each in a line that begins with its kind."""
    limits = LIMITS[target.network]
    said = f"{outcome.output}\n{outcome.errors}"
    found = []
    if outcome.late or outcome.seconds > limits.seconds:
        found.append(f"time: over {limits.seconds} processor seconds")
    if outcome.megabytes > limits.megabytes:
        found.append(f"memory: over {limits.megabytes} MB")
    if outcome.trace or "Traceback (most recent call last)" in said:
        lines = (outcome.trace or said).strip().splitlines()
        found.append(f"traceback: {_place(lines)}{lines[-1]:.200}")
    elif outcome.code not in CODES and not found:
        found.append(f"exit code: {outcome.code}")
    elif outcome.code and not said.strip():
        found.append(f"silence: exit code {outcome.code} without a word")
    if control := CONTROLS.search(said):
        found.append(f"control character: {control[0]!r} in what it says")
    found += [f"outside: {what}" for what in outcome.stopped]
    return found + [
        f"outside: {how} {path}" for path, how in outcome.changed.items() if not _may(target, flags, path, how)
    ]


def _place(lines: list[str]) -> str:
    """The last line of ours in a traceback."""
    own = [line for line in lines if re.search(r'File ".*/(xmodels|data_pipelines|launch)/', line)]
    return re.sub(r'.*/((?:xmodels|data_pipelines|launch)/[^"]*)", line (\d+).*', r"\1:\2 ", own[-1]) if own else ""


def _may(target: Target, flags: dict[str, str], path: str, how: str) -> bool:
    """Whether a case may touch a path of its room: its outputs, and what lies beside or above these when it is new."""
    if path == "tmp" or path.startswith(("tmp/__autograph_generated_file", "tmp/jieba")):
        return True  # TensorFlow deletes its files when Python ends, which a forked process does not; jieba keeps its dictionary
    if path.startswith(("home", "tmp")):
        return False
    path = os.path.relpath(path, "case")
    if any(_inside(path, folder) for folder in ("out", *target.writes)):
        return True
    given = dict(word.lstrip("-").partition("=")[::2] for word in target.arguments(flags))
    for name in OUTPUTS & given.keys():
        output = os.path.normpath(given[name].partition(":")[2] if name == "to" and ":" in given[name] else given[name])
        if how == "made" and (_inside(path, os.path.dirname(output) or ".") or _inside(output, path)):
            return True
        if _inside(path, output):
            return True
    return False


def _inside(path: str, folder: str) -> bool:
    return folder == "." or path == folder or path.startswith(f"{folder}/")
