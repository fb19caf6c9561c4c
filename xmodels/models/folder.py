"""Reads and writes model folders: config.json, weights.safetensors, vocab.txt, tokenizer_config.json, for a classifier
labels.json, and the checksums of these.

Weights are named `backbone.…` for the network and `objective.…` for the heads it was trained with, by the attributes
that lead to them (`named_weights`), so every Keras backend reads the same file.
"""

import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from data_pipelines import checksums, strict_json
from data_pipelines.errors import CheckpointError
from data_pipelines.files import give_usual_mode
from data_pipelines.text.tokenizer_settings import ASSETS
from xmodels.layers.initialization import loading
from xmodels.layers.poolings import KNOWN, is_known
from xmodels.models.adapters import clear_adapters, is_of_adapter, merged_weights
from xmodels.models.backbone import Backbone, named_weights
from xmodels.models.config import Config, TokenConfig

CONFIG, WEIGHTS, VOCABULARY, TOKENIZER = "config.json", "weights.safetensors", "vocab.txt", "tokenizer_config.json"
LABELS = "labels.json"  # of a classifier
OS_ERROR = re.compile(r"\(os error (\d+)\)")
BACKBONE_FOLDER = "backbone"  # the model folder in that of a run
TOKEN_TABLE, DIFFERENCE = "backbone.embedding.token.embeddings", ".token_difference"
CHECKED_FILES = (CONFIG, WEIGHTS, TOKENIZER, LABELS, *ASSETS)  # files on which predictions depend


def read_json(path: str) -> dict:
    """Returns the JSON object in a file. Raises a CheckpointError that names the file if there is none."""
    try:
        value = strict_json.read(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: not valid JSON ({error}).") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(value).__name__}.")
    return value


def read_weights(path: str) -> dict[str, np.ndarray]:
    """Returns all tensors of a safetensors file. Raises a CheckpointError that names the file if it cannot be read."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise CheckpointError(f"{path}: is a folder, a pipe or a device, not a file.")
    try:
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file.") from None
    except AttributeError as error:  # safetensors asks NumPy for types that NumPy lacks
        raise CheckpointError(f"{path}: holds numbers of a type that cannot be read here ({error}).") from None
    except (SafetensorError, OSError, TypeError) as error:
        raise CheckpointError(f"{path}: not a readable safetensors file ({error}). Copy it again.") from None


def check_finite(values: Mapping[str, np.ndarray], source: str) -> None:
    """Raises a CheckpointError that names the first tensor that holds NaN or infinity, or is not floating-point."""
    for name, value in values.items():
        if value.dtype.kind not in "fV":  # V: bfloat16, which is no type of NumPy itself
            raise CheckpointError(f"{source}: {name} holds {value.dtype}, not floating-point numbers.")
        if not (finite := np.isfinite(value)).all():
            raise CheckpointError(
                f"{source}: {name} holds {np.size(finite) - np.count_nonzero(finite):,} of {value.size:,} numbers that are NaN or "
                "infinite, so no answer of the network would mean anything. Take another checkpoint, or an earlier state."
            )


def write_weights(values: Mapping[str, np.ndarray], path: str, form: str | None = None) -> None:
    """Writes tensors as a safetensors file; `form` is the `format` in its header."""
    try:
        save_file(dict(values), path, metadata={"format": form} if form else None)
    except SafetensorError as error:  # says in words what the operating system says by a number
        if found := OS_ERROR.search(str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1])), path) from None
        raise
    give_usual_mode(path)


def check_tables(config: Config, values: Mapping[str, np.ndarray], path: str) -> None:
    """Compares the sizes in a configuration with the weights, before anything of these sizes is built.

    Raises:
        CheckpointError: a size is larger than that of the weights. The message names the key of config.json.
    """
    numbers = sum(value.size for value in values.values())
    if isinstance(config, TokenConfig) and config.vocabulary_size * config.embedding_dim > numbers:
        raise CheckpointError(
            f"{path}/{CONFIG}: `vocabulary_size` {config.vocabulary_size:,} times `embedding_dim` {config.embedding_dim:,} is "
            f"more than the {numbers:,} numbers in {WEIGHTS}. One of the two files is not of this network."
        )
    for name, value in values.items():
        if name.endswith("position.embeddings") and (config.longest or 0) > len(value):
            raise CheckpointError(
                f"{path}/{CONFIG}: `max_sequence_length` {config.longest:,}, but the table of positions in {WEIGHTS} has "
                f"{len(value):,} rows. One of the two files is not of this network."
            )
    for name, promised, actual in _sizes(config, values):
        if promised > actual:
            raise CheckpointError(
                f"{path}/{CONFIG}: `{name}` {promised:,}, but the weights in {WEIGHTS} are of {actual:,}. One of the two files is not "
                "of this network."
            )


def _sizes(config: Config, values: Mapping[str, np.ndarray]) -> list[tuple[str, int, int]]:
    """Lists (field, size in the configuration, size of the weights) of layers and widths, as far as names of weights tell them.

    Networks that repeat layers, or have none of these parts, name their weights differently.
    """
    found = []
    for stack, field in (
        ("blocks", "num_layers"),
        ("encoder_blocks", "num_layers"),
        ("decoder_blocks", "num_decoder_layers"),
    ):
        lead = f"backbone.{stack}."
        numbers = {name.removeprefix(lead).partition(".")[0] for name in values if name.startswith(lead)}
        if numbers:
            name = field if getattr(config, field, None) else "num_layers"
            found.append((name, getattr(config, name), len(numbers)))
    axes = {"hidden_dim": 0, "num_heads": 1, "decoder_num_heads": 1, "head_dim": 2}
    kernels = [(field, "mixer.query", axis) for field, axis in axes.items()]
    kernels += [(field, "feedforward.expand", 1) for field in ("intermediate_dim", "decoder_intermediate_dim")]
    for field, layer, axis in kernels:
        shapes = [v.shape for name, v in values.items() if name.endswith(f"{layer}.kernel") and v.ndim > axis]
        if shapes and getattr(config, field, None):
            found.append((field, getattr(config, field), max(shape[axis] for shape in shapes)))
    return found


def values_of(prefix: str, layer, array_of: Callable = np.asarray) -> dict[str, np.ndarray]:
    """Returns the weights of a built layer as {`prefix`.name: array}; those of adapters are added to the kernels they change."""
    return {f"{prefix}.{name}": array_of(variable) for name, variable in merged_weights(layer).items()}


def view_of(variable) -> np.ndarray:
    """Returns the numbers of a variable in its own memory where the backend shows that, otherwise a copy. They change with it."""
    value = getattr(variable, "value", variable)
    try:
        return np.asarray(memoryview(value.read_value() if hasattr(value, "read_value") else value))
    except (TypeError, ValueError, BufferError):  # such as bfloat16, a variable of several devices, or another backend
        return np.asarray(variable)


def build_with(network: type[Backbone], config: TokenConfig, values: Mapping[str, np.ndarray], source: str) -> Backbone:
    """Returns a network with weights `backbone.…` of `values`, of which none is drawn before.

    Raises:
        CheckpointError: as `assign`.
    """
    with loading():
        backbone = network(config).initialize()
    assign("backbone", backbone, values, source)
    return backbone


def assign(prefix: str, layer, values: Mapping[str, np.ndarray], source: str) -> None:
    """Assigns every weight of a built layer its value in `values`, in which adapters are added to their kernels: they become zero.

    Raises:
        CheckpointError: lists weights that are missing, unexpected (below `prefix`) or of another shape. Nothing is assigned then.
    """
    named = named_weights(layer).items()
    wanted = {f"{prefix}.{name}": variable for name, variable in named if not is_of_adapter(name)}
    shapes = {name: tuple(values[name].shape) for name in values if name.startswith(f"{prefix}.")}
    report_misfits({name: tuple(variable.shape) for name, variable in wanted.items()}, shapes, source)
    for name, variable in wanted.items():
        variable.assign(values[name])
    clear_adapters(layer)


def report_misfits(wanted: Mapping[str, tuple], found: Mapping[str, tuple], source: str) -> None:
    """Raises a CheckpointError unless both have the same names with the same shapes."""
    missing = sorted(set(wanted) - set(found))
    unexpected = sorted(set(found) - set(wanted))
    misshapen = [
        f"{name}: {list(found[name])} in the file, {list(wanted[name])} in the model"
        for name in sorted(set(wanted) & set(found))
        if wanted[name] != found[name]
    ]
    parts = [
        f"{title} ({len(names)}): {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        for title, names in (("missing", missing), ("unexpected", unexpected), ("another shape", misshapen))
        if names
    ]
    if parts:
        raise CheckpointError(f"{source} does not fit the model. " + "; ".join(parts) + ".")


def model_class(name: str) -> type[Backbone]:
    """Returns the network that `xmodels/models/<name>.py` defines; the folder is the registry.

    Raises:
        CheckpointError: there is no such file, or it defines no network.
    """
    module_name = f"xmodels.models.{name}"
    if not name.isidentifier() or importlib.util.find_spec(module_name) is None:
        raise CheckpointError(f"Unknown model {name!r}: there is no file xmodels/models/{name}.py.")
    module = importlib.import_module(module_name)
    classes = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Backbone)]
    own = [c for c in classes if c.__module__ == module_name]
    if not own:
        raise CheckpointError(f"xmodels/models/{name}.py holds no network.")
    return own[-1]


def name_of(network: type[Backbone]) -> str:
    """Returns the name of the file that defines a network, such as `bert`; the inverse of `model_class`."""
    return network.__module__.rsplit(".", 1)[-1]


def write_model(
    path: str,
    backbone: Backbone,
    heads=None,
    vocabulary: Mapping[str, bytes] | None = None,
    tokenizer: dict | None = None,
    system: str | None = None,
) -> None:
    """Writes a network, and the objective or task it was trained with, into the folder `path`, which must exist.

    Args:
        heads: the objective or task; None for the network alone.
        vocabulary: the files of a tokenizer, {name: contents}.
        tokenizer: the description of the tokenizer, for tokenizer_config.json.
        system: the name of the system, that of its file in `xmodels/systems`.
    """
    # Views, which are written before anything changes: copies would be as large as the network.
    values = values_of("backbone", backbone, view_of)
    if heads is not None:
        values |= values_of(heads.prefix, heads, view_of)
    labels, pooling = getattr(heads, "label_names", None), getattr(heads, "pooling", None)
    counts, model = getattr(heads, "label_counts", None), name_of(type(backbone))
    write_values(path, model, backbone.config, values, vocabulary, tokenizer, labels, system, pooling, counts)


def write_values(
    path: str,
    model: str,
    config: TokenConfig,
    values: Mapping[str, np.ndarray],
    vocabulary: Mapping[str, bytes] | None = None,
    tokenizer: dict | None = None,
    labels: Sequence[str] | None = None,
    system: str | None = None,
    pooling: str | None = None,
    label_counts: Sequence[int] | None = None,
) -> None:
    """Writes named weights into the folder `path`, which must exist, without building the network.

    Args:
        model: the name of the network, that of its file in `xmodels/models`.
        values: {name: array} of the network and its heads.
        vocabulary, tokenizer, system: as in `write_model`.
        labels: the names of the classes of a classifier.
        pooling: the pooling of the head of a task, a name in `layers.poolings`; None for that of the system's paper.
        label_counts: how often each class occurs, where a hierarchical softmax asks for it.
    """
    values = {name: np.ascontiguousarray(value) for name, value in add_differences(values).items()}
    write_weights(values, os.path.join(path, WEIGHTS), "xmodels")
    named = {name: value for name, value in (("system", system), ("pooling", pooling)) if value}
    files = {CONFIG: json.dumps({**named, "model": model, "config": config.to_json()}, indent=2) + "\n"}
    if tokenizer is not None:
        files[TOKENIZER] = json.dumps(tokenizer, indent=2) + "\n"
    if labels is not None:
        counts = {"counts": list(label_counts)} if label_counts else {}
        files[LABELS] = json.dumps({"labels": list(labels), **counts}, indent=2, ensure_ascii=False) + "\n"
    for name, text in files.items():
        with open(os.path.join(path, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
    for name, contents in (vocabulary or {}).items():
        with open(os.path.join(path, name), "wb") as file:
            file.write(contents)
    checksums.record(path, [WEIGHTS, *files, *(vocabulary or {})])


def add_differences(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights with the difference that an objective learns beside the table of tokens added to it, and left at zero."""
    values = dict(values)
    for name in [name for name in values if name.endswith(DIFFERENCE)]:
        values[TOKEN_TABLE] = values[TOKEN_TABLE] + values[name]
        values[name] = np.zeros_like(values[name])
    return values


def check_unchanged(path: str) -> None:
    """Raises a CheckpointError that names the file if one has changed since `write_values` wrote it."""
    checksums.check(path, CHECKED_FILES)


def read_labels(path: str) -> tuple[str, ...] | None:
    """Returns the names of the classes in a model folder, in the order of their ids; None if it has none."""
    source = os.path.join(path, LABELS)
    if not os.path.isfile(source):
        return None
    labels = read_json(source).get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{source}: expected `labels`, a list of strings.")
    return tuple(labels)


def read_label_counts(path: str) -> list[int] | None:
    """Returns how often each class of a hierarchical softmax occurs, in the order of their ids; None for other classifiers."""
    source = os.path.join(path, LABELS)
    counts = read_json(source).get("counts") if os.path.isfile(source) else None
    if counts is None:
        return None
    if not isinstance(counts, list) or not all(type(n) is int and n > 0 for n in counts):
        raise CheckpointError(f"{source}: expected as `counts` numbers above 0. Found: {counts!r:.80}.")
    return counts


def read_config(path: str) -> tuple[TokenConfig, type[Backbone]]:
    """Returns the configuration in a model folder, and the class of its network."""
    source, stored = _read_config(path)
    network = model_class(str(stored["model"]))
    return network.config_class.from_json(stored["config"], source), network


def read_system(path: str) -> str | None:
    """Returns the name of the system in a model folder; None if it has none, as older folders."""
    return _read_config(path)[1].get("system")


def read_pooling(path: str) -> str | None:
    """Returns the pooling of a task's head in a model folder, a name in `layers.poolings`; None for that of the system's paper."""
    return _read_config(path)[1].get("pooling")


def _read_config(path: str) -> tuple[str, dict]:
    source = os.path.join(path, CONFIG)
    stored = read_json(source)
    if set(stored) - {"system", "pooling"} != {"model", "config"} or not isinstance(stored["config"], dict):
        theirs = (
            f" It is one of Hugging Face: name it hf:{path}." if {"model_type", "architectures"} & set(stored) else ""
        )
        raise CheckpointError(
            f"{source}: not a model folder of xmodels; expected the keys `model` and `config`.{theirs}"
        )
    if not isinstance(stored.get("system", ""), str):
        raise CheckpointError(f"{source}: `system` must be the name of a system. Found: {stored['system']!r}.")
    pooling = stored.get("pooling")
    if pooling is not None and not (isinstance(pooling, str) and is_known(pooling)):
        raise CheckpointError(f"{source}: `pooling` must be {KNOWN}. Found: {pooling!r}.")
    return source, stored


def read_model(path: str) -> tuple[Backbone, dict[str, np.ndarray]]:
    """Rebuilds the network of a model folder. Returns it and the weights of its heads, {`objective.…`: array}."""
    check_unchanged(path)
    config, network = read_config(path)
    source = os.path.join(path, WEIGHTS)
    values = read_weights(source)
    check_tables(config, values, path)
    backbone = build_with(network, config, values, source)
    return backbone, {name: value for name, value in values.items() if name.startswith("objective.")}
