"""Starts TensorFlow without its lines about devices and instruction sets."""

import contextlib
import os
import sys
import tempfile


@contextlib.contextmanager
def quiet_start():
    """Holds back what TensorFlow prints to file descriptor 2 while it is imported, unless the import fails.

    Its first lines come before any log level is read.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        saved = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(saved, 2)
            held.seek(0)
            sys.stderr.write(held.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
