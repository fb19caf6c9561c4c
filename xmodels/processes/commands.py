"""Commands that run side by side, started by a process that imports TensorFlow once for all of them."""

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(eq=False)
class Command:
    """A command that was started.

    Attributes:
        code: exit code, negative for a signal; None while it runs.
        processor_seconds: of the command and its own processes, when it has ended.
    """

    number: int
    began: float
    code: int | None = None
    processor_seconds: float = 0.0


class Commands:
    """Starts commands. As a context it ends with them: what still runs then gets SIGTERM and is waited for.

    Args:
        environment: of all commands; that of this process where it is None.
    """

    def __init__(self, environment: Mapping[str, str] | None = None):
        self._environment = environment
        self._server: subprocess.Popen | None = None
        self._running: dict[int, Command] = {}
        self._buffer = b""
        self._count = 0

    def __enter__(self) -> "Commands":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def start(self, arguments: Sequence[str], log: str | None = None) -> Command:
        """Runs `python ARGUMENTS`, with its output at the end of the file `log` or, without one, where ours goes."""
        if self._server is None or self._server.poll() is not None:
            self._open()
        sys.stdout.flush()
        command = Command(self._count, time.monotonic())
        self._count += 1
        self._running[command.number] = command
        self._ask(number=command.number, arguments=list(arguments), log=log and os.path.abspath(log))
        return command

    def wait(self, seconds: float | None = None) -> Command | None:
        """Returns the next command that ends; None where none does within so many seconds, or none runs."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self._running:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                answer = json.loads(line)
                return self._record_end(self._running[answer.pop("number")], **answer)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left)[0]:
                return None
            read = os.read(self._answers, 1 << 16)
            if not read:  # the server was killed, and its commands end with it
                return self._record_end(next(iter(self._running.values())), self._server.wait() or 1, 0.0)
            self._buffer += read
        return None

    def send_signal(self, command: Command, number: int) -> None:
        """Sends a signal to a command, unless it has ended."""
        if command.number in self._running:
            with contextlib.suppress(BrokenPipeError):  # the server was killed, and its commands end with it
                self._ask(number=command.number, signal=int(number))

    def close(self) -> None:
        """Ends what still runs."""
        if self._server is None:
            return
        os.close(self._requests)
        self._server.wait()
        os.close(self._answers)
        self._server = None
        self._running.clear()

    def _open(self) -> None:
        if self._server is not None:  # it was killed
            self.close()
        theirs, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "xmodels.processes.server", str(theirs), str(answers)],
            stdin=subprocess.DEVNULL, pass_fds=(theirs, answers), env=self._environment,
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)

    def _ask(self, **request) -> None:
        os.write(self._requests, json.dumps(request).encode() + b"\n")

    def _record_end(self, command: Command, code: int, processor_seconds: float) -> Command:
        command.code, command.processor_seconds = code, processor_seconds
        del self._running[command.number]
        return command
