"""Questions that come together are answered together.

One thread asks the network; while it works, questions wait, and then all that may be asked together are one batch. A question that
finds nobody else begins at once.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import time
from collections.abc import Iterator

from xmodels.serving.answers import Outputs, join_outputs, rows_of, without_filling
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.metrics import BatchMetrics
from xmodels.serving.questions import Question


class Part:
    """Rows of a question that fit into a batch, and the future of their outputs."""

    def __init__(self, question: Question, start: int, stop: int):
        self.question, self.start, self.stop = question, start, stop
        self.arrived = time.monotonic()
        self.outputs = asyncio.get_running_loop().create_future()

    @functools.cached_property
    def length(self) -> int:
        """Bytes of its longest text, by which the number of pieces is estimated."""
        values = self.question.part(self.start, self.stop)
        texts = [row for name, each in self.question.signature.inputs.items() if each.is_column for row in values[name]]
        return max((len(str(text).encode()) for text in texts), default=0)

    @property
    def num_rows(self) -> int:
        return self.stop - self.start


class Batches:
    """The queue before a network. Lives in one event loop, which it never blocks.

    Args:
        limits: `max_batch_size`, `max_waiting` and `batch_timeout` of it.
    """

    def __init__(self, limits: Limits, metrics: BatchMetrics):
        self.limits, self.metrics = limits, metrics
        self._waiting: collections.deque[Part] = collections.deque()
        self._num_rows = 0  # that wait
        self._coming = 0  # requests whose bodies are being received
        self._changed = asyncio.Event()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "network")
        self._work = asyncio.get_running_loop().create_task(self._answer_all())

    @property
    def is_full(self) -> bool:
        """Whether a further question would be refused."""
        return self._num_rows >= self.limits.max_waiting

    async def close(self) -> None:
        """Ends the thread. Questions that wait are not answered."""
        self._work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._work
        await asyncio.to_thread(self._thread.shutdown)  # it may be at work for a client that has left

    @contextlib.contextmanager
    def coming(self) -> Iterator[None]:
        """Announces that a question is under way while the body runs; a batch may wait a little for it."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1
            self._changed.set()

    async def ask(self, question: Question) -> Outputs:
        """Returns the outputs of a question. Where the caller is cancelled, rows that wait are dropped.

        Raises:
            RequestError: too many rows, at a time (413) or for now (503).
            Exception: what the network raises.
        """
        limits, rows = self.limits, question.num_rows
        if rows > limits.max_waiting:
            raise RequestError(
                f"{rows:,} rows. At most {limits.max_waiting:,} are answered at a time (--max_waiting).", 413
            )
        if self._num_rows + rows > limits.max_waiting:
            raise RequestError("Too many requests wait. Try again in a second.", 503, {"Retry-After": "1"})
        size = limits.max_batch_size if question.signature.joins else max(rows, 1)
        parts = [Part(question, start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
        self._waiting.extend(parts)
        self._count(rows)
        self._changed.set()
        try:
            outputs = await asyncio.gather(*(part.outputs for part in parts))
        finally:
            for part in parts:
                self._drop(part)
        return without_filling(join_outputs(outputs), question.signature)

    def _count(self, rows: int) -> None:
        self._num_rows += rows
        self.metrics.waiting_rows.set(self._num_rows)

    def _drop(self, part: Part) -> None:
        with contextlib.suppress(ValueError):  # it does not wait any more
            self._waiting.remove(part)
            self._count(-part.num_rows)
            self.metrics.dropped_rows.inc(part.num_rows)
        if part.outputs.done() and not part.outputs.cancelled():
            part.outputs.exception()  # of a question whose other parts have failed; asyncio would complain at its end
        part.outputs.cancel()

    async def _answer_all(self) -> None:
        while True:
            self._changed.clear()
            if self._waiting:
                await self._gather()
                if batch := self._take():
                    await self._answer(batch)
            else:
                await self._changed.wait()

    async def _gather(self) -> None:
        """Waits for requests that are being received, as long as the oldest may wait and the batch has room."""
        until = self._waiting[0].arrived + self.limits.batch_timeout
        while self._waiting and self._coming and self._rows_of_next() < self.limits.max_batch_size:
            if (left := until - time.monotonic()) <= 0:
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    def _rows_of_next(self) -> int:
        first = self._waiting[0].question
        if not first.signature.joins:
            return self.limits.max_batch_size
        group = first.group
        return sum(part.num_rows for part in self._waiting if part.question.group == group)

    def _take(self) -> list[Part]:
        """Returns the oldest part, and those that may be asked with it; where there are too many, those of like length."""
        if not self._waiting:
            return []
        first = self._waiting.popleft()
        batch, rows = [first], first.num_rows
        if first.question.signature.joins:
            group = first.question.group
            others = [part for part in self._waiting if part.question.group == group]
            if rows + sum(part.num_rows for part in others) > self.limits.max_batch_size:
                others.sort(key=lambda part: abs(part.length - first.length))  # texts of like length need less padding
            for part in others:
                if rows + part.num_rows <= self.limits.max_batch_size:
                    batch.append(part)
                    rows += part.num_rows
            taken = set(map(id, batch))
            self._waiting = collections.deque(part for part in self._waiting if id(part) not in taken)
        self._count(-rows)
        return batch

    async def _answer(self, batch: list[Part]) -> None:
        try:
            outputs = await self._ask_network(batch)
        except Exception as error:  # whatever it is, who asked is told
            if len(batch) == 1:
                _tell(batch[0], error=error)
                return
            for part in batch:  # one row may have been too much, and the others can do nothing for it
                await self._answer([part])
            return
        start = 0
        for part in batch:
            rows = rows_of(outputs, start, start + part.num_rows) if len(batch) > 1 else outputs
            _tell(part, outputs=rows)
            start += part.num_rows

    async def _ask_network(self, batch: list[Part]) -> Outputs:
        question = batch[0].question
        values = [part.question.part(part.start, part.stop) for part in batch]
        together = {
            name: [row for each in values for row in each[name]] if wanted.is_column else values[0][name]
            for name, wanted in question.signature.inputs.items()
        }
        self.metrics.batch_rows.observe(sum(part.num_rows for part in batch))
        with self.metrics.batch_seconds.time():
            return await asyncio.get_running_loop().run_in_executor(self._thread, question.signature, together)


def _tell(part: Part, outputs: Outputs | None = None, error: Exception | None = None) -> None:
    if part.outputs.done():  # who asked has left
        return
    if error is not None:
        part.outputs.set_exception(error)
    else:
        part.outputs.set_result(outputs)
