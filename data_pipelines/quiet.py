"""Starts TensorFlow without its lines about devices and instruction sets."""

import contextlib
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence

# What Keras imports where it is installed, for its wrappers and its galleries of images: a second of each command.
NOT_FOR_KERAS = "sklearn", "matplotlib"
NOT_FOR_TENSORFLOW = (*NOT_FOR_KERAS, "jax")  # which TensorFlow imports too, to convert its functions: half a second


@contextlib.contextmanager
def quiet_start(hidden: Sequence[str] = ()):
    """Holds back what TensorFlow prints to file descriptor 2 while it is imported, unless the import fails.

    Its first lines come before any log level is read. Ctrl-C ends the process at once: nothing has been done yet, and
    an exception would be raised somewhere inside the import.

    Nor does Python look for garbage: an import makes some 400,000 objects that stay, and looking through them again and again takes a
    quarter of its time.

    Args:
        hidden: packages that what is imported takes along where they are installed, but can do without. They can be imported later.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as captured:
        saved = os.dup(2)
        os.dup2(captured.fileno(), 2)

        def stop(number, frame):
            os.write(saved, b"xmodels: interrupted.\n")
            os._exit(128 + number)

        main = threading.current_thread() is threading.main_thread()
        previous = signal.signal(signal.SIGINT, stop) if main else None
        collects = gc.isenabled()
        gc.disable()
        hidden = [name for name in hidden if name not in sys.modules]
        sys.modules.update(dict.fromkeys(hidden))  # `import` says of a None that there is no such module
        try:
            yield
        except BaseException:
            os.dup2(saved, 2)
            captured.seek(0)
            sys.stderr.write(captured.read().decode(errors="replace"))
            raise
        finally:
            for name in hidden:
                sys.modules.pop(name, None)
            if collects:
                gc.enable()
            if previous is not None:
                signal.signal(signal.SIGINT, previous)
            os.dup2(saved, 2)
            os.close(saved)


_own_process = False


def keep_loaded(in_own_process: bool | None = None) -> None:
    """Makes Python look for garbage no more in what is loaded by now, in a process that is a command's own.

    What was imported and built stays to the end; looking through it again and again took two seconds of many commands.

    Args:
        in_own_process: None for what was given last.
    """
    global _own_process
    if in_own_process is not None:
        _own_process = in_own_process
    if _own_process:
        gc.freeze()


@contextlib.contextmanager
def quiet_gradients():
    """Holds back TensorFlow's warning that a SavedModel which answers, and does not learn, has no gradients of its own."""
    logger = logging.getLogger("absl")

    def keep(record) -> bool:
        return "unsaved custom gradients" not in str(record.msg)

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
