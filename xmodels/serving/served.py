"""A model that is served: versions come and go, as its folder and its policy say, while requests are answered.

As with TensorFlow Serving, a version that is to go is unloaded only when one that is to stay has been loaded, or when none is to stay.
A version is loaded when its files have stayed the same from one look to the next, so one that is being copied is left alone; where the
files change under the number of a version, it is loaded anew.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

from data_pipelines.errors import ReportedError
from xmodels.serving.folder import ModelFolder
from xmodels.serving.limits import RequestError
from xmodels.serving.sources import Found, Source, stamp_of
from xmodels.serving.versions import State, Version

MOST_ENDED = 20  # versions that are remembered when they have gone

Loaded = tuple[Any, list[str] | None]  # a model, and the names of its probabilities


class ServedModel:
    """The versions of a model. Lives in one event loop, which it never blocks.

    Args:
        source: where they lie.
        load: returns a model and its labels; runs in a thread of its own.
        open_queue: makes the queue before a version.
        log: prints what comes and goes; the second argument says whether it is an error.
        collect: frees the memory of what was unloaded; runs in the same thread as `load`.

    Attributes:
        versions: those that are known, by their numbers.
    """

    def __init__(
        self,
        source: Source,
        load: Callable[[ModelFolder], Loaded],
        open_queue: Callable[[Version], Any],
        log: Callable[[str, bool], None],
        collect: Callable[[], None] = lambda: None,
    ):
        self.source, self.name = source, source.name
        self.versions: dict[int, Version] = {}
        self._load, self._open_queue, self._log, self._collect = load, open_queue, log, collect
        self._refused: dict[
            int, Any
        ] = {}  # stamps of what could not be loaded: it is tried again when its files change
        self._seen: dict[int, Any] = {}  # stamps of the last look
        self._complaint = ""
        self._leaving: set[asyncio.Task] = set()

    def start(self) -> None:
        """Loads what lies there.

        Raises:
            DataError: a version cannot be loaded.
        """
        found = self.source.look()
        for number in self.source.policy.wanted(found):
            folder = found[number].folder
            self.add(Version(folder, found[number].stamp), self._load(folder))
        self._seen = {number: each.stamp for number, each in found.items()}

    def add(self, version: Version, loaded: Loaded) -> None:
        """Adds a version that is loaded."""
        version.model, version.labels = loaded
        version.state = State.AVAILABLE
        self.versions[version.number] = version

    def open(self) -> None:
        """Opens the queues, in the event loop."""
        for version in self.available():
            version.batches = self._open_queue(version)

    async def close(self) -> None:
        """Closes the queues. Requests that wait are not answered."""
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        for version in self.versions.values():
            if version.batches:
                await version.batches.close()

    def available(self) -> list[Version]:
        """Returns the versions that answer, the highest first."""
        return [
            self.versions[number]
            for number in sorted(self.versions, reverse=True)
            if self.versions[number].is_available
        ]

    def find(self, number: int | None = None, label: str | None = None) -> Version:
        """Returns the version that answers: the one that is named, or the highest.

        Raises:
            RequestError: it is not served (404), or the label is unknown (400).
        """
        if label is not None:
            if label not in self.source.labels:
                known = ", ".join(sorted(self.source.labels)) or "none"
                raise RequestError(f"Unrecognized servable version label: {label:.60}. Labels of {self.name}: {known}.")
            number = self.source.labels[label]
        found = [each for each in self.available() if number in (None, each.number)]
        if not found:
            which = f"Latest({self.name})" if number is None else f"Specific({self.name}, {number})"
            raise RequestError(f"Servable not found for request: {which}. Served is {self.describe()}.", 404)
        return found[0]

    def describe(self) -> str:
        """Returns the name and the versions that answer, such as "topics, version 3"."""
        numbers = [str(each.number) for each in self.available()]
        return (
            f"{self.name}, version{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
            if numbers
            else f"{self.name}, no version"
        )

    async def refresh(self, thread: concurrent.futures.Executor) -> None:
        """Looks at the folder; loads what is new, then unloads what is not wanted any more."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(thread, self.source.look)
        except OSError as error:  # perhaps for a moment only, so what is served stays
            self._complain(
                f"{self.source.folder}: not readable ({error.strerror or error}); {self.describe()}, goes on."
            )
            return
        self._complaint = ""
        wanted = self.source.policy.wanted(found)
        for number in wanted:
            if self._is_new(number, found[number]):
                await self._exchange(number, found[number], thread)
        self._seen = {number: each.stamp for number, each in found.items()}
        staying = [number for number in wanted if number in self.versions and self.versions[number].is_available]
        if staying or not wanted:
            for version in self.available():
                if version.number not in wanted:
                    self._unload(version, thread)

    def _is_new(self, number: int, found: Found) -> bool:
        served = self.versions.get(number)
        if (served and served.is_available and served.stamp == found.stamp) or self._refused.get(number) == found.stamp:
            return False
        return self._seen.get(number) == found.stamp

    async def _exchange(self, number: int, found: Found, thread: concurrent.futures.Executor) -> None:
        """Loads a version, which then takes the place of an earlier one of its number, if there is any."""
        old, new = self.versions.get(number), Version(found.folder, found.stamp)
        is_replaced = old is not None and old.is_available
        if not is_replaced:
            self.versions[number] = new
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(thread, self._load_unchanged, found)
        except (ReportedError, OSError) as error:
            self._refuse(new, error, "DATA_LOSS")
            return
        except Exception as error:  # whatever it is, what is served goes on
            self._refuse(new, error, "UNKNOWN")
            return
        self._refused.pop(number, None)
        new.batches = self._open_queue(new)
        self.add(new, loaded)
        self._log(f"Serving {self.name}, version {number} ({', '.join(new.model.signatures)})", False)
        if is_replaced:
            self._unload(old, thread)

    def _load_unchanged(self, found: Found) -> Loaded:
        loaded = self._load(found.folder)
        if stamp_of(found.folder.path) != found.stamp:
            raise OSError("its files changed while they were read")
        return loaded

    def _refuse(self, version: Version, error: Exception, code: str) -> None:
        version.fail(error, code)
        self._refused[version.number] = version.stamp
        self._log(f"{self.name}, version {version.number}: not loaded: {error} Served is {self.describe()}.", True)

    def _unload(self, version: Version, thread: concurrent.futures.Executor) -> None:
        version.state = State.UNLOADING

        async def unload() -> None:
            await version.end()
            await asyncio.get_running_loop().run_in_executor(thread, self._collect)
            self._log(f"Unloaded {self.name}, version {version.number}", False)
            ended = [number for number, each in self.versions.items() if each.state == State.END]
            for number in sorted(ended)[:-MOST_ENDED]:
                del self.versions[number]

        task = asyncio.get_running_loop().create_task(unload())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _complain(self, message: str) -> None:
        if message != self._complaint:  # once, not every second
            self._log(message, True)
        self._complaint = message
