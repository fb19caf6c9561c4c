"""One case in a process of its own: what it said, how it ended, what it took, and which files it touched.

The process is forked from one that has imported everything, so that a case costs what its work costs: 50 ms where no network runs.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from launch.command import Command

MEGABYTE = 1 << 20
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Audit events of Python that change files, and which of their arguments are paths.
CHANGES = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1, "os.chown": 1, "os.link": 2,
    "os.symlink": 2, "os.utime": 1, "shutil.rmtree": 1,
}  # fmt: skip
REACHES = {"socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a case may take: processor seconds, and megabytes beside those that it begins with."""

    seconds: float
    megabytes: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes:
        code: its exit code; below 0 the signal that ended it.
        output, errors: what it wrote.
        trace: the traceback of an exception that left the verb.
        seconds, megabytes: what it took, as in `Limits`.
        stopped: what it would have done outside of its folder, and was kept from.
        late: whether it was ended for its time.
        changed: the files and folders that it made, changed or deleted, relative to the room of the case.
    """

    code: int
    output: str
    errors: str
    trace: str
    seconds: float
    megabytes: float
    stopped: tuple[str, ...]
    late: bool
    changed: dict[str, str]


def run(command: Command, arguments: list[str], room: Path, limits: Limits) -> Outcome:
    """Runs a verb in `room/case`, with `room/home` and `room/tmp` beside it."""
    for name in ("home", "tmp"):
        (room / name).mkdir(exist_ok=True)
    report = room.parent / f"{room.name}.json"
    report.unlink(missing_ok=True)
    before, logs = snapshot(room), [room.parent / f"{room.name}.{name}" for name in ("out", "err")]
    began = time.monotonic()
    child = os.fork()
    if not child:
        _be_the_case(command, arguments, room, limits, logs, report)
    status, usage, late, megabytes = _wait(child, began + 4 * limits.seconds + 10, limits)
    outcome = json.loads(report.read_text()) if report.exists() else {}
    code = os.waitstatus_to_exitcode(status)
    late = late or code == -signal.SIGXCPU
    output, errors = (path.read_text(encoding="utf-8", errors="replace") for path in logs)
    return Outcome(
        outcome.get("code", code), output, errors, outcome.get("trace", ""), usage.ru_utime + usage.ru_stime,
        outcome.get("megabytes", megabytes), tuple(outcome.get("stopped", ())), late, _differences(before, snapshot(room)),
    )  # fmt: skip


def forked(work: Callable[[], None], folder: Path, log: Path) -> int:
    """The number of a process that does `work` in a folder, and writes what it says into `log`."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _redirect([log, log])
        os.chdir(folder)
        fork_workers()
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def fork_workers() -> None:
    """Lets pools fork their processes: those that are spawned import all that this one has, for seconds."""
    real = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: real("fork")


def _be_the_case(command, arguments, room, limits, logs, report) -> None:
    """The life of the child."""
    found = {"code": 1, "trace": "", "stopped": []}
    try:
        os.setsid()
        _redirect(logs)
        os.chdir(room / "case")
        os.environ.update(HOME=str(room / "home"), TMPDIR=str(room / "tmp"))
        tempfile.tempdir = str(room / "tmp")
        fork_workers()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds) + 1, int(limits.seconds) + 3))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * MEGABYTE, 256 * MEGABYTE))
        with contextlib.suppress(OSError):  # some machines forbid it, and show the peak of the parent
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        held = _memory("VmRSS")
        sys.addaudithook(_guard(room, found["stopped"], os.getpid()))
        try:
            found["code"] = command.main(arguments)
        except SystemExit as stop:
            found["code"] = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            found["trace"] = traceback.format_exc()
        workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        found["megabytes"] = max(_memory("VmHWM"), workers) - held
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        found["trace"] += traceback.format_exc()
    report.write_text(json.dumps(found))
    os._exit(0)


def _redirect(logs) -> None:
    for descriptor, path in enumerate([os.devnull, *logs]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if logs[0] == logs[1] else os.O_TRUNC), 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _memory(name: str) -> float:
    """A line of /proc/self/status in megabytes."""
    return int(re.search(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)[1]) / 1024


def _guard(room: Path, stopped: list[str], process: int) -> Callable:
    """An audit hook: refuses and notes what would change files outside of `room`, start programs, or use the network."""
    inside, free = f"{room}/", ("/dev/null", "/proc/self/", "/dev/shm/pym-")  # the last: counters of multiprocessing
    logs = f"{room}."

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & WRITES
            paths = [path] if writes and not isinstance(path, int) else []
        elif event in CHANGES:
            paths = arguments[: CHANGES[event]]
        elif event in REACHES:
            if event.startswith("socket") and isinstance(arguments[-1], str | bytes):
                return  # a socket of this machine's own
            stopped.append(f"{event} {arguments!r:.200}")
            raise PermissionError(1, f"not in a case: {event}")
        else:
            return
        for path in paths:
            if isinstance(path, int):
                continue
            full = os.path.abspath(os.fsdecode(path))
            if not full.startswith((inside, logs, *free)):
                stopped.append(f"{event} {full}")
                raise PermissionError(1, f"outside of the case: {event}", full)

    return hook


def _wait(child: int, until: float, limits: Limits):
    """The status of a child, what it used, whether it was late, and its megabytes; ends it when it is late or takes twice too much."""
    late, pause, held, taken = False, 0.002, None, 0.0
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            break
        used = _resident(child)
        held = used if held is None else held
        taken = used - held
        if time.monotonic() > until or taken > 2 * limits.megabytes:
            late = time.monotonic() > until
            os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    return status, usage, late, taken


def _resident(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize() / MEGABYTE
    except (OSError, IndexError):
        return 0.0


def snapshot(room: Path) -> dict[str, tuple]:
    """All that lies in a folder: path -> what changes with its contents."""
    found = {}
    for folder, folders, files in os.walk(room):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            times = (status.st_size, status.st_mtime_ns, status.st_ino) if name in files else ()
            found[os.path.relpath(path, room)] = (status.st_mode, *times)
    return found


def _differences(before: dict, after: dict) -> dict[str, str]:
    made = {path: "made" for path in after if path not in before}
    gone = {path: "deleted" for path in before if path not in after}
    return made | gone | {path: "changed" for path in after if path in before and before[path] != after[path]}
