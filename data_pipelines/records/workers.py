"""Runs jobs in worker processes that report their progress and end with their parent."""

import contextlib
import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from data_pipelines.errors import ReportedError

_progress_counter = None

# glibc would give the memory of large arrays back to the system as soon as they are freed, and ask for it again at once,
# which cost a fifth of the time. It reads this when a process begins.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 25), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment for the processes that are started here, but for those that are set already."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _start_worker(counter) -> None:
    global _progress_counter
    _progress_counter = counter
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    gc.disable()  # the jobs make many objects and no cycles; looking for these cost a tenth of the time


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed; it would write on, into the files of the run that resumes."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _run(function, arguments):
    unreported = 0

    def progress(num_bytes: int, at_least: int = 1 << 16) -> None:
        nonlocal unreported
        unreported += num_bytes
        if unreported >= at_least:  # the lock is shared by all workers
            with _progress_counter.get_lock():
                _progress_counter.value += unreported
            unreported = 0

    result = function(*arguments, progress)
    progress(0, at_least=0)
    return result


def run_jobs(
    function: Callable, jobs: Mapping[int, tuple], num_workers: int, report: Callable[[int], None], done: int = 0
) -> dict[int, Any]:
    """Calls `function(*arguments, progress)` for every job, `num_workers` at a time; returns the results by key.

    Args:
        function: at module level, since it is found by name in the workers; calls `progress` with numbers of bytes.
        report: called now and then with `done` and all bytes of progress so far.

    Raises:
        ReportedError: a worker was killed.
    """
    if not jobs:
        return {}
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", done)
    results = {}
    with (
        _environment(_KEEP_MEMORY),
        ProcessPoolExecutor(num_workers, context, _start_worker, (counter,)) as pool,
    ):
        try:  # around the submissions too: a worker may be killed while later jobs are still handed over
            keys = {pool.submit(_run, function, arguments): key for key, arguments in jobs.items()}
            pending = set(keys)
            while pending:
                finished, pending = wait(pending, timeout=0.3, return_when=FIRST_EXCEPTION)
                results |= {keys[job]: job.result() for job in finished}
                report(counter.value)
        except BrokenProcessPool:
            fewer = f", and with fewer than --num_workers={num_workers} if memory is short" if num_workers > 1 else ""
            raise ReportedError(
                "a worker process ended before its work was done; mostly the system kills it when memory runs out (`dmesg` tells). "
                f"What is finished is kept: run the same command with --resume{fewer}. Called from a script of your own, workers "
                'start only where its calls stand below `if __name__ == "__main__":` (docs/python.md).'
            ) from None
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
