"""A network as a SavedModel: strings in, answers out, nothing of this project needed.

What it answers is the business of its task (`xmodels/tasks/NAME/serve.py`); how a SavedModel is written, checked against the network's
own answers and put in its place is here, once for all tasks.
"""

import contextlib
import dataclasses
import glob
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.serving_text import WORDPIECES
from xmodels.export.readme import VERSION, readme
from xmodels.runs.fine_tuned import load_answerer, task_of
from xmodels.tasks.base import find
from xmodels.tasks.base.serve import Server

README = "README.md"
LABELS = "assets.extra/labels.json"  # in the folder of the version; TensorFlow Serving ignores the files there
SIGN = "# A", "exported by xmodels"  # how the README of every export begins, and how its first line ends


@dataclasses.dataclass(frozen=True)
class Export:
    """A finished export.

    Attributes:
        path: the folder that holds it.
        answers: what it does, such as "of raw strings".
        largest_difference: between its numbers and those of the run, on a few strings; None where they are texts, which
            are equal.
        length: tokens of an input, special ones counted, that are read together; None where it has no such bound.
    """

    path: str
    answers: str
    largest_difference: float | None
    length: int | None = None


def export(run: str, export_dir: str, serving_ops: str = "text", overwrite: bool = False, **numbers) -> Export:
    """Writes the SavedModel of a network, laid out as TensorFlow Serving wants it, and a README.md.

    Args:
        run: the folder of a run.
        export_dir: a new or empty folder.
        serving_ops: `core` needs TensorFlow only; `text` is faster and needs tensorflow_text.
        overwrite: replace an earlier export. Folders that hold anything else are never replaced.
        numbers: further arguments of the task's `Server`.

    Raises:
        UsageError: `export_dir` is taken, or `serving_ops` cannot be had.
        CheckpointError: the run is damaged, or was trained for nothing that can be served.
        RuntimeError: the SavedModel does not answer as the run does. Nothing is left behind.
    """
    check_serving_ops(serving_ops)
    export_dir = os.path.realpath(export_dir)
    check_free(export_dir, overwrite)
    task = task_of(run)
    server = find.load_part(task, "serve").Server(load_answerer(run, task), serving_ops, **numbers)
    with new_folder(export_dir) as path:
        model = os.path.join(path, VERSION)
        save(server, model)
        write_labels(server, model)
        served = tf.saved_model.load(model).signatures
        difference = server.compare(served)
        with open(os.path.join(path, README), "w", encoding="utf-8") as file:
            file.write(readme(server, served))
    return Export(export_dir, server.answers, difference, getattr(server, "max_sequence_length", None))


def check_serving_ops(serving_ops: str) -> None:
    """Raises a UsageError for unknown ops, or without the library that has them."""
    if serving_ops not in WORDPIECES:
        raise UsageError(f"Unknown `serving_ops`: {serving_ops!r}. Known: {', '.join(WORDPIECES)}.")
    if serving_ops == "text" and importlib.util.find_spec("tensorflow_text") is None:
        raise UsageError('`serving_ops` "text" needs tensorflow_text: pip install tensorflow-text, or choose "core".')


def check_free(export_dir: str, overwrite: bool) -> None:
    """Raises a UsageError unless `export_dir` is new or empty, or may be replaced."""
    if not os.path.lexists(export_dir):
        return
    if not os.path.isdir(export_dir):
        raise UsageError(f"{export_dir}: exists and is not a folder; choose another.")
    if not os.listdir(export_dir) or (overwrite and is_export(export_dir)):
        return
    if overwrite:
        raise UsageError(f"{export_dir}: exists and holds more or other than an export of ours; choose another.")
    raise UsageError(f"{export_dir}: exists; choose another or --overwrite.")


def is_export(path: str) -> bool:
    """Returns whether a folder holds what `export` writes, and nothing else."""
    if set(os.listdir(path)) != {VERSION, README} or not os.path.isfile(os.path.join(path, VERSION, "saved_model.pb")):
        return False
    with open(os.path.join(path, README), encoding="utf-8", errors="replace") as file:
        title = file.readline().rstrip()
    return title.startswith(SIGN[0]) and title.endswith(SIGN[1])


def left_behind(path: str) -> list[str]:
    """Folders that exports to `path` which were killed have left, or such as run now."""
    return sorted(glob.glob(f"{glob.escape(os.path.realpath(path))}.partial-*"))


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[str]:
    """Yields a folder beside `path` that takes its place when the body is done, and vanishes if it fails."""
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}.partial-", dir=parent) as temporary:
        unfinished, old = os.path.join(temporary, "new"), os.path.join(temporary, "old")
        os.mkdir(unfinished)  # inside, because the temporary folder is closed to other users
        yield unfinished
        if not os.path.exists(path):
            os.rename(unfinished, path)
            return
        os.rename(path, old)
        try:
            os.rename(unfinished, path)
        except BaseException:  # the old export would vanish with the temporary folder
            os.rename(old, path)
            raise


def save(server: Server, path: str) -> None:
    """Writes the SavedModel, without gradients."""
    signatures = {name: signature.function() for name, signature in server.signatures().items()}
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(server, path, signatures=signatures, options=options)


def write_labels(server: Server, path: str) -> None:
    """Writes the names of `probabilities` beside the SavedModel, for programs that show them."""
    if server.probability_labels is None:
        return
    os.mkdir(os.path.join(path, os.path.dirname(LABELS)))
    with open(os.path.join(path, LABELS), "w", encoding="utf-8") as file:
        json.dump(list(server.probability_labels), file, ensure_ascii=False)
