"""Runs a command that ends with the process that started it, even where that was killed with SIGKILL.

python -m xmodels.processes.child PARENT COMMAND...
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> bool:
    """Asks the kernel for SIGTERM when the parent ends. Returns whether the parent is still there."""
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it; elsewhere locks keep two runs apart
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent


def main(arguments: list[str]) -> None:
    parent, *command = arguments
    if end_with(int(parent)):
        os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main(sys.argv[1:])
