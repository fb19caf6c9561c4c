"""Writes an export whose network stands apart, as ONNX or LiteRT: ids in, numbers out.

What reads strings and writes answers is a SavedModel beside it, so the answers are those of an export that is a SavedModel as a whole.
The files of the tokenizer, its labels and its task stand there too, for programs that do without TensorFlow.
"""

import json
import os
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import file_sha256
from data_pipelines.text.tokenizer import CONFIG
from xmodels.export import litert, onnx, tokenizer_json
from xmodels.export.formats import FLOAT32
from xmodels.runs.fine_tuned import TASK_FILE, read_task
from xmodels.serving.apart import READ, TEXT, WRITE
from xmodels.serving.folder import DESCRIPTION
from xmodels.serving.kinds import FILES, LITERT, ONNX
from xmodels.serving.networks import Network, open_network
from xmodels.tasks.base import find
from xmodels.tasks.base.comparison import REPORT, check_difference
from xmodels.tasks.base.serve import Server
from xmodels.tasks.base.signatures import DEFAULT, TOKENS, ask

MOST_BYTES = 1_900_000_000  # of weights: files of these formats hold 2 GB
TOKENIZER = "tokenizer"  # the folder of its files
OF_NETWORK = ("attention", "backbone", "task", "predictor")  # attributes of a `Server` that hold the network
WRITE_NETWORK = {ONNX: onnx.write, LITERT: litert.write}


def check_task(task: str, flags: str) -> None:
    """Raises a UsageError unless the network of a task can stand apart. `flags` are those that ask for it."""
    if not _can_part(task):
        able = [name for name in find.names("task") if _can_part(name)]
        raise UsageError(
            f"{flags}: not for --task={task}, whose answers need the network more than once or read no text. "
            f"Tasks that can: {', '.join(able)}."
        )


def _can_part(task: str) -> bool:
    part = find.load_part(task, "serve")
    return bool(getattr(getattr(part, "Server", None), "numbers", ()))


def write(server: Server, path: str, run: str, kind: str, precision: str) -> float:
    """Writes the parts into a new folder.

    Args:
        run: the folder of the run.
        kind: ONNX or LITERT.

    Returns:
        The largest difference of the numbers of the network from those of the run, on the rows by which exports are checked.

    Raises:
        UsageError: the network is too large, or has operations that the format lacks.
        RuntimeError: the network does not answer as the run does.
    """
    os.mkdir(path)
    check_size(server, kind)
    parted = server.parted()
    reads = {name: _concrete(each.read, [column.spec() for column in each.inputs]) for name, each in parted.items()}
    specs = specs_of(reads[DEFAULT])
    file = os.path.join(path, FILES[kind])
    network = write_network(server.network, specs, file, kind, precision)
    features = ask(reads[DEFAULT], server.columns_of(server.checked))
    difference = compare_numbers(server, network, features)
    if precision == FLOAT32:
        check_difference(difference)
    if not np.isfinite(difference):
        raise RuntimeError(f"The exported network answers NaN or infinity with --precision={precision}. {REPORT}")
    write_text(server, os.path.join(path, TEXT), parted, reads)
    write_task(server, path, run)
    return difference


def write_network(
    network: Callable, specs: Mapping[str, tf.TensorSpec], path: str, kind: str, precision: str
) -> Network:  # fmt: skip
    """Writes the graph of `network`, from {name: feature} to {name: number}, as a file of a format; returns what reads it.

    Raises:
        UsageError: the format, or what runs it, lacks an operation of the network.
    """
    WRITE_NETWORK[kind](network, specs, path, precision)
    try:
        return open_network(path, kind)
    except DataError as error:
        reason = str(error).partition("(")[2].rpartition(")")[0].replace(path, os.path.basename(path))
        raise UsageError(
            f"--format={kind} --precision={precision}: this network is written, but not run ({reason}). Take --format=saved_model."
        ) from None


def check_size(server: Server, kind: str) -> None:
    """Raises a UsageError where a network is larger than a file of its format may be."""
    count = sum(int(np.prod(each.shape)) for each in server.backbone.variables)
    if 4 * count > MOST_BYTES:
        raise UsageError(
            f"--format={kind}: the network has {4 * count / 1e9:.1f} GB of weights; a file of that format holds 2 GB. Take "
            "--format=saved_model."
        )


def specs_of(read) -> dict[str, tf.TensorSpec]:
    """Returns the specs of what a network reads, of the graph that makes it of strings."""
    return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in sorted(read.structured_outputs.items())}


def compare_numbers(server: Server, network: Network, features: Mapping[str, np.ndarray]) -> float:
    """Returns the largest difference between the numbers of a network and those of the run; NaN where one is none."""
    found = network(features)
    wanted = server.network({name: tf.constant(value) for name, value in features.items()})
    largest = 0.0
    for name, value in wanted.items():
        value = value.numpy()
        scale = max(1.0, np.abs(value).max(initial=0.0))
        largest = max(largest, float(np.abs(found[name] - value).max(initial=0.0) / scale))
    return largest if all(np.isfinite(value).all() for value in found.values()) else float("nan")


def write_text(server: Server, path: str, parted: Mapping, reads: Mapping) -> None:
    """Writes the SavedModel that reads strings and writes answers; it holds the tables of the tokenizer, and no network."""
    numbers = _concrete_numbers(server, specs_of(reads[DEFAULT]))
    signatures = {}
    for name, each in parted.items():
        signatures[READ + name] = reads[name]
        inputs = [column.spec() for column in each.inputs]

        def answer(*values, write=each.write):
            count = len(numbers)
            return write(dict(zip(numbers, values[:count], strict=True)), *values[count:])

        signatures[WRITE + name] = _concrete(answer, [*numbers.values(), *inputs])
    if tokens := server.signatures().get(TOKENS):
        signatures[TOKENS] = tokens.function()
    holder = tf.Module()  # what the graphs read: tables, and weights that decode
    holder.tables = [x for name, x in vars(server).items() if isinstance(x, tf.Module) and name not in OF_NETWORK]
    holder.weights = [variable for each in signatures.values() for variable in each.graph.variables]
    tf.saved_model.save(
        holder, path, signatures=signatures, options=tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    )


def _concrete_numbers(server: Server, specs: Mapping[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    """Returns the specs of the numbers of a network."""
    graph = _concrete(lambda *values: server.network(dict(zip(specs, values, strict=True))), list(specs.values()))
    found = graph.structured_outputs
    return {name: tf.TensorSpec(found[name].shape, tf.float32, name) for name in server.numbers}


def _concrete(method, specs):
    return tf.function(method, autograph=False).get_concrete_function(*specs)


def write_task(server: Server, path: str, run: str) -> None:
    """Writes task.json and the files of the tokenizer."""
    tokenizer = server.predictor.tokenizer
    folder = os.path.join(path, TOKENIZER)
    os.mkdir(folder)
    for name, content in tokenizer.files().items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    _write_json(os.path.join(folder, CONFIG), tokenizer.describe())
    if content := tokenizer_json.tokenizer_json(server):
        with open(os.path.join(folder, tokenizer_json.FILE), "w", encoding="utf-8") as file:
            file.write(content)
    _write_json(os.path.join(path, TASK_FILE), vars(read_task(run)))


def write_description(path: str, kind: str, precision: str) -> None:
    """Writes export.json: what the folder holds, and the checksums of all of its files, which must stand there."""
    files = [
        os.path.relpath(os.path.join(folder, name), path) for folder, _, names in os.walk(path) for name in names
    ]  # fmt: skip
    sums = {name.replace(os.sep, "/"): file_sha256(os.path.join(path, name)) for name in sorted(files)}
    _write_json(
        os.path.join(path, DESCRIPTION),
        {"format": kind, "precision": precision, "keras": keras.__version__, "sha256": sums},
    )


def _write_json(path: str, value: Mapping) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
