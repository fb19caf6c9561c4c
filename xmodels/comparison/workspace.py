"""The folder of a comparison: what is done, what failed, and what the stages have written."""

import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Sequence

from data_pipelines import strict_json
from data_pipelines.errors import DataError
from data_pipelines.files import append_to, check_own, file_sha256, own_folder, write_json
from xmodels.comparison import budget
from xmodels.comparison.budget import StepCost
from xmodels.comparison.stages import RESUMABLE, Naming, Stage
from xmodels.training.watching.progress import read_log

DONE, FAILED, LOGS, INPUTS = "done", "failed", "logs", "inputs.json"
NETWORK = "backbone"  # where a run keeps what it has handed over


class Workspace(Naming):
    """Marks, logs and results of stages. A mark is a file with the fingerprint, the command and what it cost."""

    assumes = False  # whether estimates may stand where nothing is known yet

    def __init__(self, folder: str, own: Sequence[str] = ("compare",)):
        super().__init__(folder, self._contents, own)
        self.broken: set[str] = set()  # fingerprints of stages that failed in this call
        self._sums: dict[str, str] = {}

    def state(self, one: Stage) -> str:
        """Returns done, failed (in this call) or open."""
        if self.mark(one) is not None:
            return DONE
        return FAILED if self.fingerprint(one) in self.broken else "open"

    def is_decided(self, one: Stage) -> bool:
        """Returns whether there is nothing more to wait for: it is done, or it failed, or what it needs failed."""
        return self.state(one) != "open" or any(self.is_decided(n) and self.state(n) != DONE for n in one.needs)

    def mark(self, one: Stage) -> dict | None:
        """Returns what stands in its mark; None where the stage is not done, or what it wrote is gone."""
        found = None if one.uncertain else _read(self._mark(DONE, one))
        whole = found and found.get("fingerprint") == self.fingerprint(one) and os.path.exists(self.output(one))
        return found if whole else None

    def failure(self, one: Stage) -> dict | None:
        """Returns what stands in the mark of a failure, of this call or an earlier one."""
        return None if one.uncertain or self.mark(one) else _read(self._mark(FAILED, one))

    def log(self, one: Stage) -> str:
        return os.path.join(self.folder, LOGS, f"{self.name(one)}.log")

    def begin(self, one: Stage) -> None:
        """Makes room: what a killed command left is removed where the command could not go on from it."""
        path = self.output(one)
        for folder in (os.path.dirname(path), os.path.join(self.folder, LOGS)):
            if folder != self.folder:  # which the user named, and which may be a link
                own_folder(folder)
        if one.kind not in RESUMABLE:
            for each in (path, *glob.glob(f"{glob.escape(path)}.*.partial")):
                if os.path.isdir(each) and not os.path.islink(each):
                    shutil.rmtree(each)
                elif os.path.lexists(each):
                    os.remove(each)
        check_own(path)
        with append_to(self.log(one)) as file:
            file.write(f"$ xmodels {shlex.join(self.command(one))}\n")

    def finish(self, one: Stage, code: int, seconds: float, processor_seconds: float) -> None:
        """Writes the mark. Costs of earlier attempts that were killed or failed are added."""
        before = _read(self._mark(FAILED, one)) or {}
        mark = {
            "fingerprint": self.fingerprint(one), "name": one.name, "exit_code": code,
            "seconds": seconds + before.get("seconds", 0.0),
            "processor_seconds": processor_seconds + before.get("processor_seconds", 0.0),
            "command": self.command(one), "finished": time.strftime("%Y-%m-%d %H:%M"),
        }  # fmt: skip
        path = self._mark(FAILED if code else DONE, one)
        own_folder(os.path.dirname(path))
        write_json(path, mark)
        if code:
            self.broken.add(self.fingerprint(one))
        elif os.path.exists(self._mark(FAILED, one)):
            os.remove(self._mark(FAILED, one))

    def results(self, one: Stage) -> dict[str, float] | None:
        """Returns what a run scored; None where it is not done."""
        if self.mark(one) is None:
            return None
        found = _read(os.path.join(self.output(one), "results.json"))
        return found and found["results"]

    def answers(self, one: Stage) -> dict | None:
        """Returns what a baseline answered and scored; None where it is not done."""
        return _read(self.output(one)) if self.mark(one) else None

    def labels(self, one: Stage) -> list[str] | None:
        """Returns the labels that a network named; None where it is not done."""
        if self.mark(one) is None:
            return None
        with open(self.output(one), encoding="utf-8") as file:
            return [json.loads(line)["label"] for line in file]

    def entries(self, one: Stage) -> list[dict]:
        """Returns the log of a run."""
        return read_log(os.path.join(self.output(one), "log.jsonl"))

    def cost(self, probe: Stage, tokens: int) -> StepCost | None:
        """Returns what a step costs, by a probe; None where it is not done.

        Raises:
            DataError: its log holds too little.
        """
        if self.mark(probe) is None:
            return None
        try:
            return budget.measure_step(self.entries(probe), tokens)
        except DataError as error:
            raise DataError(f"{self.output(probe)}: {error}. Give `pretraining.probe_steps` more steps.") from None

    def _mark(self, kind: str, one: Stage) -> str:
        return os.path.join(self.folder, kind, f"{one.kind}-{self.name(one)}.json")

    def _contents(self, text: str) -> str:
        """Returns the SHA-256 of all files that a flag names. Files of the same size and time are not read again."""
        if text in self._sums:
            return self._sums[text]
        path, digest = os.path.join(self.folder, INPUTS), hashlib.sha256()
        known = _read(path) or {}
        before = dict(known)
        for part in text.split(","):
            pattern = re.sub(r":[0-9.]+$", "", part.strip())
            digest.update(part[len(pattern) :].encode() + b"\0")
            for name in _files(pattern):
                if not os.path.isfile(name):
                    digest.update(name.encode())
                    continue
                facts = os.stat(name)
                key = f"{os.path.abspath(name)} {facts.st_size} {facts.st_mtime_ns}"
                known[key] = known.get(key) or file_sha256(name)
                digest.update(os.path.splitext(name)[1].encode() + known[key].encode())
        if known != before and os.path.isdir(self.folder) and not self.assumes:
            write_json(path, known)
        self._sums[text] = digest.hexdigest()
        return self._sums[text]


class Assumed(Workspace):
    """The same for a dry run, which writes nothing and goes on with estimates."""

    assumes = True


def _files(pattern: str) -> list[str]:
    """Returns the files of a pattern, a folder or a checkpoint, also after a prefix such as hf: or TASK:; else the text itself."""
    if pattern.startswith("tfds:"):
        return [pattern]
    prefix, path = re.match(r"(\w+:)?(.*)", pattern).groups()
    found = glob.glob(pattern) or (
        glob.glob(f"{path}.*") if prefix == "tf1:" and not os.path.isdir(path) else glob.glob(path)
    )
    networks = (os.path.join(name, NETWORK) for name in found)  # of a run, whose reports and states change
    found = [inner if os.path.isdir(inner) else name for inner, name in zip(networks, found, strict=True)]
    inside = (glob.glob(os.path.join(glob.escape(name), "**"), recursive=True) for name in found if os.path.isdir(name))
    files = [*filter(os.path.isfile, found), *(name for names in inside for name in filter(os.path.isfile, names))]
    return sorted(files) or [pattern]


def _read(path: str) -> dict | None:
    try:
        found = strict_json.read(path)
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None
