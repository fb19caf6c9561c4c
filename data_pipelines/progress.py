"""Progress bars of the data commands."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from tqdm import tqdm


def bar(total: int, title: str) -> tqdm:
    """A progress bar over bytes; in a log file, a line every half minute."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    return tqdm(total=total, desc=title, unit="B", unit_scale=True, dynamic_ncols=True, mininterval=seconds)


@contextlib.contextmanager
def reporting(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function of (bytes read, bytes in all) that moves a bar. The bar begins with its first call."""
    progress = None

    def report(done: int, total: int) -> None:
        nonlocal progress
        progress = bar(total, title) if progress is None else progress
        progress.update(done - progress.n)

    try:
        yield report
    finally:
        if progress is not None:
            progress.close()
