"""Fuzzes all verbs: `python -m tests.fuzz --minutes=10`; `--help` says more, and docs/decisions/fuzzing.md what counts as a fault."""

import argparse
import gc
import json
import os
import pickle
import random
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}

from data_pipelines.quiet import quiet_start

with quiet_start():
    from tests.fuzz import base

from tests.fuzz.case import Cases
from tests.fuzz.imports import import_everything
from tests.fuzz.strategies import cases
from tests.fuzz.table import Table
from tests.fuzz.targets import TARGETS, Target

FINDS = Path(__file__).parent / "finds"
SHRINKING = 60  # seconds for making a find smaller
ROUND = {False: 6, True: 2}  # cases of a target before the next one's turn; without and with a network
PARTS = {False: "data", True: "networks"}


def main() -> int:
    options = parser().parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(
        f"seed {seed}" + ("" if options.seed is not None else f"; to see the same cases again: make fuzz SEED={seed}"),
        flush=True,
    )
    chosen = [
        target
        for target in TARGETS.values()
        if options.only in (target.name, target.line.split()[0], PARTS[target.network], "")
    ]
    if not chosen:
        raise SystemExit(f"--only={options.only}: no verb or target. Targets: {', '.join(TARGETS)}.")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder), seed, options.base and Path(options.base), Path(options.finds).absolute())
        if options.replay:
            return fuzzer.replay([Path(path) for path in options.replay])
        failed = fuzzer.replay(sorted(FINDS.glob("*.json")))
        began = time.monotonic()
        fuzzer.share(chosen, 60 * options.minutes, options.rounds, options.jobs)
        elapsed = time.monotonic() - began
    print(fuzzer.table.text())
    if options.report:
        Path(options.report).write_text(fuzzer.table.page(seed, elapsed, options.jobs), encoding="utf-8")
    return int(failed or fuzzer.found > 0)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    made.add_argument("--minutes", type=float, default=10, help="how long, after a preparation of half a minute")
    made.add_argument(
        "--rounds",
        type=int,
        help="in place of minutes: so many rounds, in which each target has its turn; always the same cases for a seed",
    )
    made.add_argument("--jobs", type=int, default=1, help="processes that share the targets; the cases are the same")
    made.add_argument("--seed", type=int, help="of what is drawn; default: another one each time, which is printed")
    made.add_argument("--only", default="", help="a verb, the name of a target, or one of: data, networks")
    made.add_argument("--replay", nargs="+", help="cases in files, in place of new ones")
    made.add_argument("--report", help="where to write a table")
    made.add_argument("--finds", default="fuzz-finds", help="folder for what is found")
    made.add_argument("--base", help="folder for the files that cases begin with: kept, and used again where it exists")
    return made


class Fuzzer:
    """Draws cases, runs them, and keeps those that fail."""

    def __init__(self, folder: Path, seed: int, kept: Path | None, finds: Path):
        self.folder, self.seed, self.finds, self.found, self.known, self.table = folder, seed, finds, 0, set(), Table()
        files = kept or folder / "base"
        began = time.monotonic()
        import_everything()
        gc.freeze()  # or each case would copy most of the memory, to count what refers to it
        if not files.exists():
            files.mkdir(parents=True)
            base.make(files)
        (folder / "rooms").mkdir()
        self.cases = Cases(files.absolute(), folder / "rooms")
        print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)

    def replay(self, paths: list[Path]) -> bool:
        """Runs cases that were found before; whether one of them still fails."""
        failed = False
        for path in paths:
            result = self.cases.run(json.loads(path.read_text(encoding="utf-8"))["case"])
            for fault in result.faults:
                failed = True
                print(f"{path.name}: {fault}\n{result.outcome.trace or result.outcome.errors}", flush=True)
        print(f"{len(paths)} found before: {'some fail' if failed else 'none fails'}", flush=True)
        return failed

    def share(self, targets: list[Target], seconds: float, rounds: int | None, jobs: int) -> None:
        """Lets forks `work` at a share of the targets each, and adds what they count.

        Raises:
            SystemExit: one of them failed; it has said why.
        """
        sys.stdout.flush()
        working = {}
        for place in range(jobs):
            counted = self.folder / f"counted-{place}"
            child = os.fork()
            if not child:
                self.work_alone(targets[place::jobs], seconds, rounds, self.folder / f"rooms-{place}", counted)
            working[child] = counted
        failed = False
        for child, counted in working.items():
            if os.waitpid(child, 0)[1]:
                failed = True
                continue
            found, table = pickle.loads(counted.read_bytes())
            self.found += found
            self.table.merge(table)
        if failed:
            raise SystemExit("A process of the fuzzer failed.")

    def work_alone(self, targets: list[Target], seconds: float, rounds: int | None, rooms: Path, counted: Path) -> None:
        """Works in rooms of its own, writes down what was found and counted, and ends this process."""
        code = 1
        try:
            rooms.mkdir()
            self.cases = Cases(self.cases.base, rooms)
            self.work(targets, seconds, rounds)
            counted.write_bytes(pickle.dumps((self.found, self.table)))
            code = 0
        except BaseException:  # also SystemExit: nothing of the parent's may run here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def work(self, targets: list[Target], seconds: float, rounds: int | None) -> None:
        """Gives each target its turns until the time is over; who has had least time comes first."""
        end, turns = time.monotonic() + seconds, dict.fromkeys((each.name for each in targets), 0)
        while True:
            open_ones = [each for each in targets if rounds is None or turns[each.name] < rounds]
            if not open_ones or (rounds is None and time.monotonic() > end):
                return
            target = min(open_ones, key=lambda each: self.table.spent[each.name])
            if rounds is None:
                self.cases.expect(target)  # or what follows would show nothing
            self.turn(target, turns[target.name])
            turns[target.name] += 1

    def turn(self, target: Target, number: int) -> None:
        """Draws and runs some cases of a target; what fails is made smaller and kept."""
        smallest: dict[
            str, dict
        ] = {}  # of each kind of fault; the first kind is made smaller, others stay as they come
        began = time.monotonic()

        def check(case):
            if smallest and time.monotonic() - began > SHRINKING:
                return
            started = time.monotonic()
            result = self.cases.run(case)
            self.table.add(target, case, result, time.monotonic() - started)
            kinds = [kind for kind in (_kind(target, fault) for fault in result.faults) if kind not in self.known]
            for kind in kinds:
                found = {
                    "case": case,
                    "was": result.faults,
                    "details": f"{result.outcome.trace}\n{result.outcome.errors[:2000]}",
                }
                smallest[kind] = found if kind == next(iter(smallest), kind) else smallest.get(kind, found)
            if next(iter(smallest), None) in kinds:
                raise AssertionError(kinds[0])

        turn = zlib.crc32(f"{self.seed} {target.name}".encode()) + number
        drawn = hypothesis.given(cases(target, self.cases.base, turn))(check)
        settings = hypothesis.settings(
            max_examples=ROUND[target.network], database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck), report_multiple_bugs=False, print_blob=False, verbosity=Verbosity.quiet,
        )  # fmt: skip
        try:
            hypothesis.seed(f"{self.seed} {target.name} {number}")(settings(drawn))()
        except Exception:
            if not smallest:
                raise
        for kind, find in smallest.items():
            self.known.add(kind)
            self.keep(target, find)

    def keep(self, target: Target, find: dict) -> None:
        """Writes a find that is new, and says how to see it again.

        What it holds of this machine stands in a file of its own, so that the case can go into `tests/fuzz/finds` as it is.
        """
        self.found += 1
        self.finds.mkdir(exist_ok=True)
        path = self.finds / f"{target.name.replace(' ', '_').replace('/', '_')}-{self.found:03}.json"
        path.with_suffix(".txt").write_text(find.pop("details"), encoding="utf-8")
        path.write_text(json.dumps(find, indent=1) + "\n", encoding="utf-8")
        print(
            f"FOUND {target.name}: {find['was'][0]}\n  {json.dumps(find['case']):.600}\n  python -m tests.fuzz --replay {path}",
            flush=True,
        )


def _kind(target: Target, fault: str) -> str:
    """What makes two faults one: the verb, and the place of a traceback or the sort of anything else."""
    sort, _, rest = fault.partition(": ")
    return f"{target.line.split()[0]} {sort} {rest.split()[0] if sort == 'traceback' else ''}"


if __name__ == "__main__":
    sys.exit(main())
