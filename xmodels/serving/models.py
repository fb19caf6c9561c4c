"""All models of a server: found by their names, looked after while requests are answered."""

import asyncio
import concurrent.futures
import contextlib
import gc
import sys
from collections.abc import Iterable

from data_pipelines.escaping import for_terminal_line
from xmodels.serving.apart import open_model
from xmodels.serving.batches import Batches
from xmodels.serving.folder import ModelFolder, labels_of
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.metrics import Metrics
from xmodels.serving.model import Model
from xmodels.serving.served import Loaded, ServedModel
from xmodels.serving.sources import Source
from xmodels.serving.versions import Version


class Models:
    """What a server serves. `start` comes first, outside of an event loop; then `open` and `close` in one.

    Args:
        sources: of the models, each with a name of its own.
        poll_seconds: between two looks at a folder; 0 for never.
        trusted: run any op of their graphs.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        limits: Limits,
        metrics: Metrics,
        poll_seconds: float = 0.0,
        trusted: bool = False,
    ):
        self.limits, self.metrics, self.poll_seconds, self.trusted = limits, metrics, poll_seconds, trusted
        self.served = {
            source.name: ServedModel(source, self._load, self._open_queue, log, collect) for source in sources
        }
        self._tasks: list[asyncio.Task] = []
        self._thread: concurrent.futures.ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Loads all models.

        Raises:
            DataError: one of them cannot be loaded.
        """
        for each in self.served.values():
            each.start()

    def open(self) -> None:
        """Opens the queues, and begins to look at the folders."""
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "loading")
        for each in self.served.values():
            each.open()
            if self.poll_seconds:
                self._tasks.append(asyncio.get_running_loop().create_task(self._watch(each)))

    async def close(self) -> None:
        """Ends the watch, and closes the queues. Requests that wait are not answered."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for each in self.served.values():
            await each.close()
        self._thread.shutdown(wait=False)

    @property
    def is_ready(self) -> bool:
        """Whether a model takes requests."""
        return any(
            not each.batches.is_full for served in self.served.values() for each in served.available() if each.batches
        )

    def find(self, name: str, number: int | None = None, label: str | None = None) -> Version:
        """Returns the version that answers.

        Raises:
            RequestError: there is none (404), or its label is unknown (400).
        """
        if name in self.served:
            return self.served[name].find(number, label)
        which = f"Latest({name:.100})" if number is None else f"Specific({name:.100}, {number})"
        raise RequestError(f"Servable not found for request: {which}. Served is {self.describe()}.", 404)

    def known(self, name: str, number: int | None = None, label: str | None = None) -> list[Version]:
        """Returns the versions whose state is asked, the highest first.

        Raises:
            RequestError: there is none (404), or its label is unknown (400).
        """
        if label is not None:
            return [self.find(name, label=label)]
        versions = self.served[name].versions if name in self.served else {}
        found = [versions[each] for each in sorted(versions, reverse=True) if number in (None, each)]
        if not found:
            which = "any versions" if number is None else f"version {number}"
            raise RequestError(f"Could not find {which} of model {name:.100}. Served is {self.describe()}.", 404)
        return found

    def describe(self) -> str:
        """Returns what is served, such as "topics, version 3; tags, versions 2, 1"."""
        return "; ".join(each.describe() for each in self.served.values())

    def _load(self, folder: ModelFolder) -> Loaded:
        model = open_model(folder, self.trusted)
        model.warm_up()
        return model, labels_of(folder)

    def _open_queue(self, version: Version) -> Batches:
        return Batches(self.limits, self.metrics.of(version.folder.name, version.folder.version))

    async def _watch(self, served: ServedModel) -> None:
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                await served.refresh(self._thread)
            except Exception as error:  # whatever it is, what is served goes on, and the next look may be better
                log(f"{served.source.folder}: {type(error).__name__}: {error}", True)


def log(message: str, is_error: bool) -> None:
    """Prints a line about a model."""
    print(for_terminal_line(message)[:1000], file=sys.stderr if is_error else sys.stdout, flush=True)


def collect() -> None:
    """Frees what was unloaded, and lets what is loaded be: looking for garbage in it takes a fifth of the time of a request."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def fixed(model: Model, labels: list[str] | None, limits: Limits, metrics: Metrics) -> Models:
    """Returns a single model that is loaded already, and stays as it is."""
    models = Models([Source(model.folder.name, model.folder.path)], limits, metrics)
    models.served[model.folder.name].add(Version(model.folder), (model, labels))
    return models
