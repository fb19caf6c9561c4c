"""Checkpoints in and out: `hf:FOLDER` of Hugging Face, `tf1:PREFIX` of Google's and OpenAI's code, `keras_hub:FOLDER`,
`fairseq:FOLDER`, `paddle:FOLDER`, or a model folder of ours."""

import contextlib
import dataclasses
import os
import shutil
from typing import Any

import keras
import numpy as np

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.vocabulary import EOS, SEP
from xmodels.conversion import (
    fairseq,
    find,
    formats,
    hugging_face,
    keras_hub,
    names,
    paddle,
    rankers,
    taggers,
    tensorflow1,
    tensors,
    vocabularies,
    word_vectors,
)
from xmodels.layers.poolings import parts
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.objectives.find import is_objective
from xmodels.tasks.base.find import JOINT_HEAD, task_class

RUN_MODEL = "backbone"  # where a run folder keeps its model folder
MANIFEST = "manifest.json"  # what tells a folder of records
READOUTS = ".attention_pooling.", ".layer_mix."  # in names of weights of tasks, which no other format has
TASK = "task.json"  # what says what it has learnt
RUN_STATES = "checkpoints"  # and where the states from which it resumes

READERS = {"hf": hugging_face, "tf1": tensorflow1, "keras_hub": keras_hub, "fairseq": fairseq, "paddle": paddle}
WRITERS = {"hf": hugging_face.write, "keras_hub": keras_hub.write, "paddle": paddle.write}


def load(source: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a checkpoint.

    Args:
        source: `hf:FOLDER`, `tf1:PREFIX_OR_FOLDER`, `keras_hub:FOLDER`, `fairseq:FOLDER`, `paddle:FOLDER`, or a model folder or
            run folder of ours.
        allow_pickle: read a `model.pt` or `.pdparams`, or a `pytorch_model.bin` if there is nothing better. A pickle can run code.

    Raises:
        CheckpointError: says which file, and which tensors are missing, unexpected, of another shape or not finite.
    """
    kind, path = names.split(source)
    names.check_there(source)
    if not kind:
        found = _read_ours(path)
    else:
        reader = READERS[kind] if kind in READERS else find.load(kind)
        found = tensorflow1.read(path) if kind == "tf1" else reader.read(path, allow_pickle)
    folder.check_finite(found.values, source)
    return found


def save(loaded: Checkpoint, target: str) -> None:
    """Writes a checkpoint into a new folder, which appears when it is whole.

    Args:
        target: `hf:FOLDER`, `tf1:FOLDER`, `tf1:FOLDER/bert_model.ckpt`, `keras_hub:FOLDER`, `paddle:FOLDER`,
            `word2vec:FILE` or another of `word_vectors`, or a plain path for a model folder of ours.

    Raises:
        UsageError: the target exists.
        CheckpointError, DataError: the format cannot express the checkpoint, or its vocabulary is broken.
    """
    if word_vectors.is_named(target):
        word_vectors.write(target, loaded)
        return
    kind, path = names.split(target)
    if kind == "fairseq" or (kind in find.names() and not hasattr(find.load(kind), "write")):
        raise UsageError(
            f"{target}: {kind}'s format is read, not written. Write hf:FOLDER, tf1:FOLDER or a folder of ours."
        )
    if kind in find.names() and loaded.model != find.load(kind).MODEL:
        raise CheckpointError(f"{target}: is a format of {find.load(kind).MODEL}, and this is a {loaded.model}.")
    if kind:
        tasks = sorted(label for label in heads_without_place(loaded, target) if task_class(label) is not None)
        if tasks:
            raise CheckpointError(
                f"{target}: this format has no place for what a {loaded.model} has learnt for --task={', '.join(tasks)}. "
                "Convert the run that it was fine-tuned from, or serve this one with `xmodels export_model`."
            )
        check_pooling(loaded, target)
        taggers.check_plain(loaded, target)
    else:
        taggers.check_known(loaded, target)
    _check_vocabulary(loaded)
    loaded = rankers.as_regression(loaded) if kind == "hf" else loaded
    path, prefix = tensorflow1.parted(path) if kind == "tf1" else (path, None)
    with _new_folder(path) as unfinished:
        if kind == "tf1":
            tensorflow1.write(unfinished, loaded, prefix)
        else:
            write = _write_ours if not kind else WRITERS[kind] if kind in WRITERS else find.load(kind).write
            write(unfinished, loaded)


def check_pooling(loaded: Checkpoint, target: str) -> None:
    """Raises a CheckpointError where a task reads states otherwise than the heads of another format do."""
    tasks = sorted(label for label in loaded.heads if task_class(label) is not None)
    if loaded.pooling and tasks:
        raise CheckpointError(
            f"{target}: the heads of this format have no --pooling={loaded.pooling}, with which a {loaded.model} has learnt "
            f"--task={', '.join(tasks)}. Fine-tune with --pooling=published, convert the run that it was fine-tuned from, or serve "
            "this one with `xmodels export_model`."
        )


def _check_vocabulary(loaded: Checkpoint) -> None:
    """Raises a DataError or a CheckpointError that names a vocabulary that is broken, or is that of another network."""
    if loaded.tokenizer is None:
        return
    found, rows = len(loaded.tokenizer.open().vocabulary), loaded.config.vocabulary_size
    if not loaded.config.holds(found):
        raise CheckpointError(
            f"{loaded.tokenizer.source}: its vocabulary holds {found:,} tokens, but the network has {rows:,} rows of them. Put the "
            "vocabulary of this network there; or, if rows were added to fill up the table, move its files away: then the "
            "network is converted without."
        )


def heads_without_place(loaded: Checkpoint, target: str) -> set[str]:
    """Returns the labels of the heads of a checkpoint that the format of a target does not have."""
    if not formats.has_table(loaded.model):
        return set()
    labels, table = (
        {n.split(".")[1] for n in loaded.values if n.startswith("objective.")},
        formats.table_of(loaded.model),
    )
    if names.split(target)[0] == "hf" and "regress" in {head.label for head in table.heads}:
        labels -= {rankers.RANK}  # which is written as a regression
    forms = {"keras_hub": table.keras_hub, "tf1": table.tensorflow1, "paddle": table.paddle}
    if (kind := names.split(target)[0]) in forms:
        variables = forms[kind].variables if forms[kind] else {}
        return labels - {name.split(".")[1] for name in variables if name.startswith("objective.")}
    return labels - {head.label for head in table.heads}


def fields_without_place(loaded: Checkpoint, target: str) -> list[str]:
    """Fields of the configuration that a target of another format leaves out, with their weights: those that are given."""
    kind = names.split(target)[0]
    if not kind or not formats.has_table(loaded.model):
        return []
    table = formats.table_of(loaded.model)
    form = {
        "hf": table.hugging_face,
        "tf1": table.tensorflow1,
        "paddle": table.paddle,
        "keras_hub": table.keras_hub,
    }.get(kind)
    return sorted(name for name in (form.left_out if form else ()) if getattr(loaded.config, name) is not None)


def lost_ids(loaded: Checkpoint, target: str) -> str:
    """Returns the ids of special tokens that a target cannot name, as they stand in the source; those of the vocabulary's roles
    are known without."""
    if names.split(target)[0] == "hf" or loaded.tokenizer is None:
        return ""
    roles = loaded.tokenizer.open().vocabulary.roles
    wanted = {key: roles.get(role) for key, role in hugging_face.SPECIAL_IDS.items()}
    given = dict(loaded.special_ids)
    if (start := loaded.decoder_ids.get(hugging_face.DECODER_START)) is not None:
        role = formats.table_of(loaded.model).hugging_face.decoder_start
        given[hugging_face.DECODER_START] = start
        wanted[hugging_face.DECODER_START] = roles.get(role, roles.get(SEP) if role == EOS else None)
    return ", ".join(f"`{key}` {value}" for key, value in given.items() if wanted[key] != value)


def verify(source: str, target: str, allow_pickle: bool = False) -> dict[str, float]:
    """Runs both checkpoints on one fixed batch.

    Returns:
        The largest absolute difference of each output: `sequence_output`, `pooled_output`, and the logits of the heads.

    Raises:
        CheckpointError: the two have different heads, or outputs of different shapes.
    """
    both = [outputs(rankers.as_regression(load(each, allow_pickle))) for each in (source, target)]
    shapes = [{name: value.shape for name, value in found.items()} for found in both]
    folder.report_misfits(*shapes, f"{target}, compared with {source},")
    return {name: float(np.max(np.abs(both[0][name] - both[1][name]))) for name in both[0]}


def outputs(loaded: Checkpoint) -> dict[str, np.ndarray]:
    """Returns the outputs of the network and its heads for a fixed batch that has padding and two segments."""
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, loaded.model)
    batch = example_batch(loaded.config)
    batch |= _other_features(backbone, batch["padding_mask"])
    found = dict(backbone(batch))
    logits = {}
    if formats.has_table(loaded.model):
        table = formats.table_of(loaded.model)
        flags = taggers.own_flags(loaded.values, loaded.settings, loaded.config.hidden_dim)
        for head in table.heads:
            if (loaded.pooling and task_class(head.label) is not None) or (head.label == "tag" and flags):
                continue  # its head reads other states than the table says, or has more parts
            if head.label in loaded.heads or head.label not in table.groups:  # the latter have no weights
                logits[f"{head.label}_logits"] = _logits(head, found, batch, backbone, loaded)
    return {name: keras.ops.convert_to_numpy(value) for name, value in (found | logits).items()}


def _logits(head: formats.Head, found, batch, backbone, loaded: Checkpoint):
    """Returns what a head says of the outputs of the network, with its weights of the checkpoint."""
    num_classes = tensors.num_classes(loaded.values, formats.table_of(loaded.model))
    objective = head.make(loaded.config, num_classes)
    logits = head.logits(objective, found, batch, backbone)  # creates the weights
    if not objective.weights:
        return logits
    folder.assign(objective.prefix, objective, loaded.values, loaded.model)
    return head.logits(objective, found, batch, backbone)


def example_batch(config) -> dict[str, np.ndarray]:
    """Returns two rows, of which the second ends in padding; targets are other texts, without."""
    length = config.cut(16)
    positions = np.arange(length)
    token_ids = np.random.default_rng(0).integers(config.vocabulary_size, size=(2, length))
    real = positions < np.array([[length], [max(1, length - 4)]])  # (B, L)
    return {
        "token_ids": (token_ids * real).astype("int32"),
        "segment_ids": (real & (positions >= length // 2) & (getattr(config, "num_segments", 1) > 1)).astype("int32"),
        "padding_mask": real,
        "target_ids": token_ids[:, ::-1].astype("int32"),
        "mask_positions": np.stack([positions, positions]).astype("int32"),
    }


def _other_features(backbone, padding_mask: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what a network reads of each token beside its id, such as characters: small numbers (B, L, K), 0 on padding."""
    rng, found = np.random.default_rng(1), {}
    for name, feature in backbone.reads.items():
        if len(feature.shape) == 2 and feature.shape[1]:
            values = rng.integers(1, 100, size=(*padding_mask.shape, feature.shape[1]))
            found[name] = (values * padding_mask[:, :, None]).astype(feature.dtype)
    return found


def model_of(name: str) -> str:
    """Returns the network of a checkpoint of another format, told from its configuration."""
    kind, path = names.split(name)
    if kind == "hf":
        stored = folder.read_json(os.path.join(path, folder.CONFIG))
        return formats.table_for(stored)[1]
    if kind == "fairseq":
        return "roberta"
    if kind == "paddle":
        return formats.paddle_model()
    if kind == "keras_hub":
        return keras_hub.model_of(path)
    if kind in find.names():
        return find.load(kind).MODEL
    return tensorflow1.model_of(path)


def _read_ours(path: str) -> Checkpoint:
    run_model = os.path.join(path, RUN_MODEL)
    if os.path.isfile(os.path.join(run_model, folder.CONFIG)):
        path = run_model
    elif os.path.isdir(os.path.join(path, RUN_STATES)):
        raise CheckpointError(
            f"{path}: this run is not finished, so it has no {RUN_MODEL}/ yet. The command that began it resumes it; its "
            f"flags stand in {path}/flags.txt."
        )
    else:
        names.check_folder(path)
    if os.path.isfile(os.path.join(path, MANIFEST)) and not os.path.isfile(os.path.join(path, folder.CONFIG)):
        raise CheckpointError(f"{path}: holds records, not a network. Records are named by --data_dir.")
    folder.check_unchanged(path)
    config, network = folder.read_config(path)
    model = network.__module__.rsplit(".", 1)[-1]
    source = os.path.join(path, folder.WEIGHTS)
    values = folder.read_weights(source)
    folder.check_tables(config, values, path)
    if not formats.has_table(model):  # nobody else has a format for it; its weights are checked when they are assigned
        heads = frozenset(name.split(".")[1] for name in values if name.startswith("objective."))
        labels, files = folder.read_labels(path), vocabularies.read_ours(path)
        return Checkpoint(model, config, values, files, heads, labels, **_described(path))
    table = formats.table_of(model)
    described = _described(path)
    tagger = taggers.own_flags(values, described["settings"], config.hidden_dim)
    # A head that reads several poolings side by side is wider than the table says.
    wide = len(parts(described["pooling"] or "")) > 1
    known = {head.label for head in table.heads if not (wide and task_class(head.label))} - (
        {"tag"} if tagger else set()
    )
    further = {
        n: value for n, value in values.items() if _head_of(n) not in (None, *known) or any(x in n for x in READOUTS)
    }
    loaded = tensors.loaded_from(
        {name: value for name, value in values.items() if name not in further},
        {name: (name, axes) for name, axes in table.axes.items()},
        model,
        config,
        source,
        tokenizer=vocabularies.read_ours(path),
        labels=folder.read_labels(path),
    )
    loaded = dataclasses.replace(loaded, **described)
    if not further:
        return loaded
    heads = loaded.heads | {name.split(".")[1] for name in further}
    return dataclasses.replace(loaded, values=loaded.values | further, heads=heads, labels=folder.read_labels(path))


def _described(path: str) -> dict[str, Any]:
    """Returns what a model folder says of itself beside its network, and the run that it lies in of its task."""
    task = os.path.join(os.path.dirname(os.path.abspath(path)), TASK)
    is_of_run = os.path.basename(os.path.abspath(path)) == RUN_MODEL and os.path.isfile(task)
    settings = folder.read_json(task).get("settings") if is_of_run else None
    settings = settings if isinstance(settings, dict) else {}
    return {"system": folder.read_system(path), "pooling": folder.read_pooling(path), "settings": settings}


def _head_of(name: str) -> str | None:
    """Returns the label of the task or objective of ours to which a weight belongs; None for other weights."""
    prefix, _, rest = name.partition(".")
    label = rest.partition(".")[0]
    known = label.startswith(JOINT_HEAD) or task_class(label) is not None or is_objective(label)
    return label if prefix == "objective" and known else None


def _write_ours(path: str, loaded: Checkpoint) -> None:
    tokenizer = loaded.tokenizer
    files, settings = (tokenizer.files, None if tokenizer.unsure else tokenizer.settings) if tokenizer else (None, None)
    folder.write_values(
        path, loaded.model, loaded.config, loaded.values, files, settings, loaded.labels, loaded.system, loaded.pooling
    )


@contextlib.contextmanager
def _new_folder(path: str):
    """Yields a folder that becomes `path` when the body is done, and vanishes if it fails."""
    path = os.path.abspath(path)
    if os.path.lexists(path):
        raise UsageError(f"--to={path}: exists already; a checkpoint is written into a new folder only. Name another.")
    unfinished = f"{path}.unfinished-{os.getpid()}"
    os.makedirs(unfinished)
    try:
        yield unfinished
        os.rename(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
