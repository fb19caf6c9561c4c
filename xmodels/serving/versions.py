"""A version of a model: its state, in the words of TensorFlow Serving, and the requests that use it."""

import asyncio
import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from xmodels.serving.folder import ModelFolder

MODEL = "xmodels.model"  # the key under which the scope of a request says which version answers it


class State(enum.StrEnum):
    """What becomes of a version, in this order."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"  # it answers what has come, and nothing new
    END = "END"


class Version:
    """A version of a model.

    Attributes:
        number: of the version.
        stamp: of its files.
        model, labels, batches: what answers, the names of its probabilities, and the queue before it; None unless it is loaded.
        error: why it is not served; empty if nothing is wrong. `error_code` is the code of TensorFlow.
    """

    def __init__(self, folder: ModelFolder, stamp: Any = None):
        self.folder, self.number, self.stamp = folder, int(folder.version), stamp
        self.state, self.error, self.error_code = State.LOADING, "", "OK"
        self.model, self.labels, self.batches = None, None, None
        self._uses = 0
        self._unused = asyncio.Event()
        self._unused.set()

    @property
    def is_available(self) -> bool:
        return self.state == State.AVAILABLE

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps the version loaded while the body runs."""
        self._uses += 1
        self._unused.clear()
        try:
            yield
        finally:
            self._uses -= 1
            if not self._uses:
                self._unused.set()

    def fail(self, error: Exception, code: str) -> None:
        """Notes why the version is not served."""
        self.state, self.error, self.error_code = State.END, str(error), code

    async def end(self) -> None:
        """Lets go of the model when no request uses it any more."""
        self.state = State.UNLOADING
        await self._unused.wait()
        if self.batches:
            await self.batches.close()
        self.model = self.labels = self.batches = None
        self.state = State.END
