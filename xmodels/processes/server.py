"""Starts commands for another process. Those that need TensorFlow are forked from here, where it is imported already.

    python -m xmodels.processes.server REQUESTS ANSWERS

The arguments are file descriptors of pipes; a line of JSON is a request or an answer. Who asks is `processes.commands`. An import
of TensorFlow and Keras takes a fifth of the processor time of a fine-tuning on a few hundred rows: once is enough for several
dozen. What is imported here starts no threads of TensorFlow, opens no device and computes nothing, so a fork is as good as new.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys

from data_pipelines.files import append_to
from data_pipelines.quiet import NOT_FOR_KERAS, quiet_start
from xmodels.processes.child import end_with

PAUSE = 0.05  # seconds between two looks at the processes
IMPORTED = tuple(f"xmodels.jobs.{name}.run" for name in ("pretrain", "finetune", "evaluate", "predict", "export_model"))
# Verbs; any other command is a program of its own.
FORKED = "pretrain", "finetune", "evaluate", "predict", "export_model"


@dataclasses.dataclass
class Server:
    """The processes that were started and have not ended: process ID -> number of the request."""

    requests: int
    answers: int
    running: dict[int, int] = dataclasses.field(default_factory=dict)
    programs: dict[int, subprocess.Popen] = dataclasses.field(default_factory=dict)

    def serve(self) -> dict | None:
        """Returns None when nobody asks any more, and in a forked process the request that is to be run there."""
        buffer = b""
        while True:
            if select.select([self.requests], [], [], PAUSE)[0]:
                read = os.read(self.requests, 1 << 16)
                if not read:
                    return self._end()
                *lines, buffer = (buffer + read).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if "signal" in request:
                        self._send_signal(**request)
                    elif self._start(request):
                        return request
            self._reap()

    def _start(self, request: dict) -> bool:
        """Returns whether this is the forked process."""
        arguments = request["arguments"]
        if arguments[:2] == ["-m", "launch"] and arguments[2] in FORKED and _can_fork():
            parent = os.getpid()
            pid = os.fork()
            if not pid:
                if not end_with(parent):
                    os._exit(1)
                return True
        else:
            with _open_log(request["log"]) as log:
                program = subprocess.Popen(
                    [sys.executable, "-m", "xmodels.processes.child", str(os.getpid()), *arguments],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
            pid = program.pid
            self.programs[pid] = program
        self.running[pid] = request["number"]
        return False

    def _send_signal(self, signal: int, number: int) -> None:
        for pid, each in self.running.items():
            if each == number:
                os.kill(pid, signal)

    def _reap(self) -> None:
        for pid, number in list(self.running.items()):
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                del self.running[pid]
                if program := self.programs.pop(pid, None):
                    program.returncode = code
                answer = {"number": number, "code": code, "processor_seconds": usage.ru_utime + usage.ru_stime}
                with contextlib.suppress(BrokenPipeError):
                    os.write(self.answers, json.dumps(answer).encode() + b"\n")

    def _end(self) -> None:
        """Tells what still runs to save its state, and waits for it."""
        for pid in self.running:
            os.kill(pid, signal.SIGTERM)
        for pid in self.running:
            os.waitpid(pid, 0)


def _can_fork() -> bool:
    """Imports what the forked processes need. Elsewhere than on Linux, and with other backends, a fork may not be used."""
    if sys.platform != "linux":
        return False
    with quiet_start(NOT_FOR_KERAS):
        backend = importlib.import_module("keras").config.backend()
        if backend == "tensorflow":
            for name in IMPORTED:
                importlib.import_module(name)
    return backend == "tensorflow"


def _open_log(path: str | None):
    return append_to(path) if path else contextlib.nullcontext()


def begin(request: dict) -> None:
    """Runs a command in the forked process, as if it were a program of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if request["log"]:
        with _open_log(request["log"]) as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    _, module, *arguments = request["arguments"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(arguments: list[str]) -> None:
    end_with(
        os.getppid()
    )  # also while it imports TensorFlow and does not look at its pipe; its commands then end with it
    signal.signal(signal.SIGINT, lambda number, frame: None)  # Ctrl-C reaches everybody; who asks decides what ends
    requests, answers = map(int, arguments)
    request = Server(requests, answers).serve()
    os.close(requests)
    os.close(answers)
    if request:
        begin(request)


if __name__ == "__main__":
    main(sys.argv[1:])
