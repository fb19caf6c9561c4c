"""What the doctor finds: one line a check, which says what is wrong and what to do."""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator

from data_pipelines.errors import DataError, ReportedError

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_MARK = "Warning: "  # how commands begin a line about what works, but hardly as meant


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        status: OK, WARNING or PROBLEM.
        name: of the check.
        text: what was found; of a warning or problem the cause and what to change.
        exit_code: that of the command: 0 but for problems, whose kinds the README lists.
    """

    status: str
    name: str
    text: str
    exit_code: int = 0

    def __str__(self) -> str:
        return f"{self.status:8} {self.name:13} {self.text}"


Check = Callable[..., str | None]  # takes the case; says what is fine, or None where there is nothing to look at


def findings(checks: Iterable[tuple[str, Check]], case) -> Iterator[Finding]:
    """Runs checks in order.

    A check raises what the commands raise, says "Warning: …" as they do, and returns what is fine.
    """
    for name, check in checks:
        output, ok, problem = io.StringIO(), None, None
        with contextlib.redirect_stdout(output):
            try:
                ok = check(case)
            except ReportedError as error:
                problem = error
            except OSError as error:  # a folder that may not be read, a file that vanished
                problem = DataError(f"{error.filename or 'file system'}: {error.strerror or error}. Check the path.")
        warnings = [line.removeprefix(_MARK) for line in output.getvalue().splitlines() if line.startswith(_MARK)]
        yield from (Finding(WARNING, name, text) for text in warnings)
        if problem is not None:
            yield Finding(PROBLEM, name, " ".join(str(problem).split()), problem.exit_code)
        elif ok is not None and not warnings:
            yield Finding(OK, name, ok)
