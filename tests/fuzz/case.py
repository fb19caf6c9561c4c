"""Makes the files of a case, runs it, and says what is wrong."""

import dataclasses
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from data_pipelines.files import file_sha256
from tests.fuzz import oracle
from tests.fuzz.mutations import FORGED, mutate
from tests.fuzz.sandbox import Outcome, run
from tests.fuzz.targets import TARGETS, Target

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
REPEATED = {"times", "repeat", "other"}  # one whole compressed text behind another is a text too


@dataclasses.dataclass(frozen=True)
class Result:
    """A case that was run; `answers` are the contents of the files that hold what it found."""

    outcome: Outcome
    faults: list[str]
    answers: tuple[bytes | None, ...]


class Cases:
    """Runs cases on a folder of files to begin with.

    Args:
        base: that folder.
        rooms: an empty folder, in which each case has a room.
    """

    def __init__(self, base: Path, rooms: Path):
        self.base, self.rooms = base, rooms
        self.expected: dict[str, Result] = {}

    def run(self, case: dict) -> Result:
        """The outcome of a case as `strategies.cases` draws it."""
        target, flags = TARGETS[case["target"]], case["flags"]
        room = self.rooms / "room"
        shutil.rmtree(room, ignore_errors=True)
        changed = set(self.write_files(target, case["files"], room / "case"))
        outcome = run(target.command, target.arguments(flags), room, oracle.LIMITS[target.network])
        answers = tuple(_contents(room / "case" / name) for name in target.answers)
        found = Result(outcome, oracle.faults(target, flags, outcome), answers)
        found.faults.extend(self._unnoticed(target, case["files"], changed, found))
        return found

    def expect(self, target: Target) -> Result:
        """How the command ends on files that are whole; it must end well."""
        if target.name not in self.expected:
            result = self.run({"target": target.name, "files": {}, "flags": {}})
            if result.outcome.code or result.faults:
                raise SystemExit(f"{target.name}, with nothing changed: {result}")
            self.expected[target.name] = result
        return self.expected[target.name]

    def write_files(self, target: Target, files: dict[str, list], folder: Path) -> Iterator[str]:
        """Fills the folder of a case; the names of those files that are not as they were."""
        (folder / "out").mkdir(parents=True)
        for name in target.copied:
            for path in self.base.glob(name):
                (shutil.copytree if path.is_dir() else shutil.copy2)(path, folder / path.name)
        for name, mutations in files.items():
            before = (folder / name).read_bytes()
            after = mutate(before, mutations, lambda other: (self.base / other).read_bytes())
            (folder / name).write_bytes(after)
            if after != before:
                yield name

    def _unnoticed(self, target: Target, files, changed: set[str], found: Result) -> Iterator[str]:
        """Damage to a file of which a checksum is kept, that the verb accepts, and that changes what it finds."""
        if found.outcome.code:
            return
        for name in sorted(changed):
            forged = any(mutation[0] in FORGED | REPEATED for mutation in files[name])
            if any(fnmatch(name, pattern) for pattern in target.checks):
                yield f"unnoticed: {name} has another checksum than its manifest says"
            elif (
                target.answers
                and self._is_checked(name)
                and not forged
                and found.answers != self.expect(target).answers
            ):
                yield f"unnoticed: {name} is damaged, and the answers are others"

    def _is_checked(self, name: str) -> bool:
        """Whether it holds checksums of its own, or a file beside it its SHA-256."""
        if name.endswith(COMPRESSED):
            return True
        digest, path = file_sha256(str(self.base / name)).encode(), self.base / name
        beside = [each for each in (*path.parent.iterdir(), *path.parent.parent.iterdir()) if each.suffix == ".json"]
        return any(digest in each.read_bytes() for each in beside)


def _contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
