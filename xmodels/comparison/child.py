"""Runs a command that ends with the comparison that started it, even where that was killed with SIGKILL.

python -m xmodels.comparison.child PARENT COMMAND...
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, *command = arguments
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it; elsewhere locks keep two runs apart
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # which ended before this process could ask to be told
        return
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main(sys.argv[1:])
