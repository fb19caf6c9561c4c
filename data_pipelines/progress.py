"""Progress bars: on a terminal, in a notebook, in a log file."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from tqdm.auto import tqdm

# `tqdm.auto` is a widget where there is one to show it.
IN_NOTEBOOK = "ipykernel" in sys.modules


def bar(total: int, title: str) -> tqdm:
    """Returns a progress bar over bytes; in a log file, a line every half minute."""
    seconds = 0.5 if IN_NOTEBOOK or sys.stderr.isatty() else 30
    return tqdm(total=total, desc=title, unit="B", unit_scale=True, dynamic_ncols=True, mininterval=seconds)


def steps_bar(done: int, total: int) -> tqdm:
    """Returns a bar over the steps of a training in a notebook; elsewhere the lines of its log say how far it is."""
    return tqdm(total=total, initial=done, desc="training", unit="step", disable=not IN_NOTEBOOK)


@contextlib.contextmanager
def reporting(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function of (bytes read, bytes in all) that moves a bar. The bar begins with its first call."""
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
