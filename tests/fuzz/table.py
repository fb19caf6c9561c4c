"""What a run of the fuzzer counts, and the page that shows it."""

import collections
import platform

from tests.fuzz.case import Result
from tests.fuzz.targets import Target


class Table:
    """Cases by verb and by kind of file, exit codes, the slowest case, and the largest memory."""

    def __init__(self):
        self.spent = collections.Counter()
        self.verbs = collections.defaultdict(Row)
        self.kinds = collections.defaultdict(Row)

    def add(self, target: Target, case: dict, result: Result, seconds: float) -> None:
        """Counts a case."""
        self.spent[target.name] += seconds
        kinds = {_kind(name) for name in case["files"]} | ({"flags"} if case["flags"] else set())
        for row in (self.verbs[target.line.split()[0]], *(self.kinds[kind] for kind in kinds)):
            row.add(result)

    def merge(self, other: "Table") -> None:
        """Adds what another process has counted."""
        self.spent += other.spent
        for own, others in ((self.verbs, other.verbs), (self.kinds, other.kinds)):
            for name, row in others.items():
                own[name].merge(row)

    def text(self) -> str:
        """Both tables, for a terminal and for Markdown."""
        columns = (
            " | cases | exit codes | with a fault | slowest, processor s | most memory, MB |\n|" + " --- |" * 6 + "\n"
        )
        return "\n".join(
            f"| {title}{columns}" + "".join(f"| {name} | {row.text()} |\n" for name, row in sorted(rows.items()))
            for title, rows in (("verb", self.verbs), ("what is changed", self.kinds))
        )

    def page(self, seed: int, elapsed: float, jobs: int) -> str:
        """The page of `benchmarks/results`, of a run of so many seconds."""
        cases = sum(row.cases for row in self.verbs.values())
        bad = sum(row.bad for row in self.verbs.values())
        inside = sum(self.spent.values())
        return (
            f"# Fuzzing\n\n{cases:,} cases of {len(self.spent)} commands in {elapsed / 60:.0f} minutes, {inside / 60:.0f} of them "
            f"inside of cases, seed {seed}; {bad} with a fault. "
            f"{jobs} process(es), Python {platform.python_version()}. Made by `make fuzz REPORT=benchmarks/results/fuzz.md`.\n\n"
            "Memory is what a case takes beside what its process has. docs/decisions/fuzzing.md says what counts as a fault.\n\n"
            + self.text()
        )


class Row:
    """The counts of a line."""

    def __init__(self):
        self.cases, self.bad, self.seconds, self.megabytes, self.codes = 0, 0, 0.0, 0.0, collections.Counter()

    def add(self, result: Result) -> None:
        self.cases += 1
        self.bad += bool(result.faults)
        self.codes[result.outcome.code] += 1
        self.seconds = max(self.seconds, result.outcome.seconds)
        self.megabytes = max(self.megabytes, result.outcome.megabytes)

    def merge(self, other: "Row") -> None:
        self.cases, self.bad, self.codes = self.cases + other.cases, self.bad + other.bad, self.codes + other.codes
        self.seconds, self.megabytes = max(self.seconds, other.seconds), max(self.megabytes, other.megabytes)

    def text(self) -> str:
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return f"{self.cases} | {codes} | {self.bad} | {self.seconds:.1f} | {self.megabytes:.0f}"


def _kind(name: str) -> str:
    """The kind of a file: its ending, or its name where there is none."""
    name = name.rpartition("/")[2]
    return (
        "TensorFlow checkpoint"
        if name.startswith(("checkpoint", "model.ckpt", "events"))
        else f".{name.rpartition('.')[2]}"
        if "." in name
        else name
    )
