"""A network as a SavedModel: strings in, answers out, nothing of this project needed; or with the network as ONNX or LiteRT.

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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.serving_text import WORDPIECES
from data_pipelines.quiet import quiet_gradients
from xmodels.export import apart, apart_readme, comparison, formats
from xmodels.export.formats import FLOAT32, SAVED_MODEL
from xmodels.export.readme import VERSION, readme
from xmodels.models.folder import BACKBONE_FOLDER
from xmodels.runs.fine_tuned import load_answerer, task_of
from xmodels.serving.apart import ApartModel, open_model
from xmodels.serving.folder import DESCRIPTION, ModelFolder
from xmodels.tasks.base import find
from xmodels.tasks.base.serve import Server
from xmodels.tasks.base.signatures import DEFAULT, ask, in_columns

README = "README.md"
COMPARISON = "assets.extra/comparison.json"  # in the folder of the version
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
        compared: what it answers to the rows of a file; None where none was given.
    """

    path: str
    answers: str
    largest_difference: float | None
    length: int | None = None
    compared: comparison.Comparison | None = None


@dataclasses.dataclass(frozen=True)
class Form:
    """How a network is written.

    Attributes:
        kind: SAVED_MODEL, ONNX or LITERT.
        precision: of its weights; one of `formats.PRECISIONS`.
    """

    kind: str = SAVED_MODEL
    precision: str = FLOAT32

    @property
    def is_usual(self) -> bool:
        return self == Form()

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.precision}"


def export(
    run: str, export_dir: str, serving_ops: str = "text", overwrite: bool = False, form: Form = Form(),  # noqa: B008 frozen
    eval_file: str | None = None, evaluate: Callable[[Any], Mapping] | None = None, **numbers,
) -> Export:  # fmt: skip
    """Writes a network and what its strings need, laid out as TensorFlow Serving wants it, and a README.md.

    Args:
        run: the folder of a run.
        export_dir: a new or empty folder.
        serving_ops: `core` needs TensorFlow only; `text` is faster and needs tensorflow_text.
        overwrite: replace an earlier export. Folders that hold anything else are never replaced.
        form: the format and the precision.
        eval_file: a file on which the export is compared with the network.
        evaluate: predictor -> {name: score} of this file.
        numbers: further arguments of the task's `Server`.

    Raises:
        UsageError: `export_dir` is taken, or `serving_ops` or the form cannot be had.
        CheckpointError: the run is damaged, or was trained for nothing that can be served.
        RuntimeError: the SavedModel does not answer as the run does. Nothing is left behind.
    """
    check_serving_ops(serving_ops)
    export_dir = os.path.realpath(export_dir)
    check_free(export_dir, overwrite)
    formats.check(form.kind, form.precision)
    task = task_of(run)
    if not form.is_usual or eval_file:
        apart.check_task(
            task, f"--eval_file={eval_file}" if form.is_usual else f"--format={form.kind} --precision={form.precision}"
        )
    server = make_server(run, task, serving_ops, form, numbers)
    with new_folder(export_dir) as path:
        model = os.path.join(path, VERSION)
        difference, text = _write_network(server, model, run, task, serving_ops, form, numbers)
        found = None
        if eval_file:
            is_exact = form.kind != SAVED_MODEL or form.is_usual  # the server has the weights of the run as they are
            network = server if is_exact else make_server(run, task, serving_ops, Form(), numbers)
            found = compare_on(network, model, form, run, eval_file, evaluate)
            os.makedirs(os.path.join(model, os.path.dirname(COMPARISON)), exist_ok=True)
            with open(os.path.join(model, COMPARISON), "w", encoding="utf-8") as file:
                json.dump(found.as_dict(), file, indent=2, ensure_ascii=False)
            text = f"{text}\n{comparison.as_markdown(found)}"
        if form.kind != SAVED_MODEL:
            apart.write_description(model, form.kind, form.precision)
            check_served(server, model, form)
        with open(os.path.join(path, README), "w", encoding="utf-8") as file:
            file.write(text)
    return Export(export_dir, server.answers, difference, getattr(server, "max_sequence_length", None), found)


def _write_network(
    server: Server, model: str, run: str, task: str, serving_ops: str, form: Form, numbers: Mapping[str, Any]
) -> tuple[float, str]:
    """Writes the network of a form and its labels; returns how far it is from the run, and the text of README.md."""
    if form.kind != SAVED_MODEL:
        difference = apart.write(server, model, run, form.kind, form.precision)
        write_labels(server, model)
        return difference, apart_readme.readme(server, model, form.kind, form.precision)
    save(server, model)
    write_labels(server, model)
    with quiet_gradients():
        served = tf.saved_model.load(model).signatures
    if form.is_usual:
        return server.compare(served), readme(server, served)
    return compare_roughly(run, task, serving_ops, served, numbers), readme(server, served)


def make_server(run: str, task: str, serving_ops: str, form: Form, numbers: Mapping[str, Any]) -> Server:
    """Returns what is exported, with the weights that a SavedModel of a form has; other formats convert those of float32."""
    before = keras.config.dtype_policy()
    if form.kind == SAVED_MODEL and form.precision != FLOAT32:
        keras.config.set_dtype_policy(form.precision)
    try:
        return find.load_part(task, "serve").Server(load_answerer(run, task), serving_ops, **numbers)
    finally:
        keras.config.set_dtype_policy(before)


def compare_roughly(
    run: str, task: str, serving_ops: str, served: Mapping[str, Any], numbers: Mapping[str, Any]
) -> float | None:
    """Returns the largest difference of the numbers of a SavedModel of less precision from those of the run; None for tasks whose
    answers hold none.

    Raises:
        RuntimeError: it answers NaN or infinity.
    """
    server = make_server(run, task, serving_ops, Form(), numbers)
    columns = server.columns_of(server.checked)
    given = [ask(each, columns) for each in (served[DEFAULT], server.signatures()[DEFAULT].function())]
    found, wanted = ({name: x for name, x in each.items() if x.dtype.kind == "f"} for each in given)
    if not all(tf.reduce_all(tf.math.is_finite(x)) for x in found.values()):
        raise RuntimeError("The exported model answers NaN or infinity in this precision. Take --precision=float32.")
    same_shape = [name for name in wanted if wanted[name].shape == found[name].shape]
    return max((float(abs(found[name] - wanted[name]).max(initial=0.0)) for name in same_shape), default=None)


def compare_on(
    network: Server, model: str, form: Form, run: str, eval_file: str, evaluate: Callable
) -> comparison.Comparison:
    """Returns how the export in the folder `model`, and a SavedModel in float32, answer a file beside the network."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {form: model}
        if not form.is_usual:
            folders = {Form(): os.path.join(temporary, VERSION), **folders}
            save(network, folders[Form()])
        others = {each.name: (path, *asker_of(network, path, each)) for each, path in folders.items()}
        return comparison.compare(network, evaluate, eval_file, folder_of_network(run), others)


def folder_of_network(run: str) -> str:
    """Returns the folder that holds the weights of a run."""
    folder = os.path.join(run, BACKBONE_FOLDER)
    return folder if os.path.isdir(folder) else run


def asker_of(network: Server, model: str, form: Form) -> tuple[comparison.Ask | None, comparison.Answer]:
    """Returns what gives the numbers of an export, and what answers the inputs of the predictor by its strings."""
    if form.kind == SAVED_MODEL:
        with quiet_gradients():
            loaded = tf.saved_model.load(model)  # its signatures live as long as it does
        return comparison.saved_model_asker(network, lambda columns: ask(loaded.signatures[DEFAULT], columns))
    parts = ApartModel.of_parts(ModelFolder(model, "model", VERSION), form.kind)
    return (
        lambda inputs, features: network.ask_network(parts.network, features),
        lambda inputs: parts.signatures[DEFAULT](in_columns(network.names, network.served_rows(inputs))),
    )


def check_served(server: Server, model: str, form: Form) -> None:
    """Asks the export as a server does, and in float32 compares its answers with those of the run.

    Raises:
        RuntimeError: they are others.
    """
    signature = open_model(ModelFolder(model, "model", VERSION)).signatures[DEFAULT]

    def answer(**columns):
        values = {name: value.numpy().tolist() for name, value in columns.items()}
        return {name: tf.constant(value) for name, value in signature(values).items()}

    if form.precision == FLOAT32:
        server.compare_signature(answer, server.predictions(server.checked), server.expected)
    else:
        answer(**{name: tf.constant(value) for name, value in server.columns_of(server.examples).items()})


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
    held = [os.path.join(path, VERSION, name) for name in ("saved_model.pb", DESCRIPTION)]
    if set(os.listdir(path)) != {VERSION, README} or not any(map(os.path.isfile, held)):
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
    os.makedirs(os.path.join(path, os.path.dirname(LABELS)), exist_ok=True)
    with open(os.path.join(path, LABELS), "w", encoding="utf-8") as file:
        json.dump(list(server.probability_labels), file, ensure_ascii=False)
