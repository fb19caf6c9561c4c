"""Checkpoints in and out: `hf:FOLDER` of Hugging Face, `tf1:PREFIX` of Google's and OpenAI's code, `keras_hub:FOLDER`,
`fairseq:FOLDER`, `paddle:FOLDER`, or a model folder of ours."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from types import ModuleType

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
    ours,
    paddle,
    pooled_heads,
    stand_ins,
    tensorflow1,
    tensors,
    word_vectors,
)
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.find import task_class

# Prefix of the name of a checkpoint -> the module that reads it, and writes it but for fairseq's.
MODULES = {
    "": ours,
    "hf": hugging_face,
    "tf1": tensorflow1,
    "keras_hub": keras_hub,
    "fairseq": fairseq,
    "paddle": paddle,
}


def module_of(kind: str) -> ModuleType:
    """Returns the module of a format."""
    return MODULES[kind] if kind in MODULES else find.load(kind)


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
    found = module_of(kind).read(path, allow_pickle)
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
    if not hasattr(module_of(kind), "write"):
        raise UsageError(
            f"{target}: {kind}'s format is read, not written. Write hf:FOLDER, tf1:FOLDER or a folder of ours."
        )
    if kind in find.names() and loaded.model != find.load(kind).MODEL:
        raise CheckpointError(f"{target}: is a format of {find.load(kind).MODEL}, and this is a {loaded.model}.")
    loaded, head = pooled_heads.part(loaded) if kind == "hf" else (loaded, None)
    if kind:
        tasks = sorted(filter(task_class, heads_without_place(loaded, target)))
        if tasks:
            raise CheckpointError(
                f"{target}: this format has no place for what a {loaded.model} has learnt for --task={', '.join(tasks)}. "
                "Convert the run that it was fine-tuned from, or serve this one with `xmodels export_model`."
            )
        check_pooling(loaded, target)
    _check_heads(loaded, target, is_ours=not kind)
    _check_vocabulary(loaded)
    loaded = stand_ins.rename_heads(loaded) if kind == "hf" else loaded
    path, prefix = tensorflow1.split_prefix(path) if kind == "tf1" else (path, None)
    with _new_folder(path) as unfinished:
        if prefix:
            tensorflow1.write(unfinished, loaded, prefix)
        else:
            module_of(kind).write(unfinished, loaded)
            if head is not None:
                head.write(unfinished)


def _check_heads(loaded: Checkpoint, target: str, is_ours: bool) -> None:
    """Raises a CheckpointError where a target has no place for all that the head of a task has."""
    for label in sorted(loaded.heads & set(formats.published_heads())):
        head = formats.published_heads()[label]
        if is_ours:
            head.check_own(loaded, target)
        elif flags := head.own_flags(loaded):
            head.refuse(loaded, flags, target)


def check_pooling(loaded: Checkpoint, target: str) -> None:
    """Raises a CheckpointError where a task reads states otherwise than the heads of another format do."""
    tasks = sorted(filter(task_class, loaded.heads))
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
    kind, table = names.split(target)[0], formats.table_of(loaded.model, loaded.config)
    loaded = stand_ins.rename_heads(loaded) if kind == "hf" else loaded
    labels = {name.split(".")[1] for name in loaded.values if name.startswith("objective.")}
    if kind not in ("tf1", "paddle", "keras_hub"):
        return labels - {head.label for head in table.heads}
    theirs = table.names_in(table.forms[kind]) if kind in table.forms else ()
    return labels - {name.split(".")[1] for name in theirs if name.startswith("objective.")}


def fields_without_place(loaded: Checkpoint, target: str) -> list[str]:
    """Returns the fields of the configuration that a target of another format leaves out, with their weights: those that are
    given."""
    kind = names.split(target)[0]
    form = formats.table_of(loaded.model, loaded.config).forms.get(kind) if formats.has_table(loaded.model) else None
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
        role = formats.table_of(loaded.model, loaded.config).hugging_face.decoder_start
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
    kinds = [names.split(each)[0] for each in (source, target)]
    lacking = [i for kind in kinds if kind in find.names() for i in getattr(find.load(kind), "LACKS", ())]
    both = [outputs(stand_ins.rename_heads(load(each, allow_pickle)), lacking) for each in (source, target)]
    shapes = [{name: value.shape for name, value in found.items()} for found in both]
    folder.report_misfits(*shapes, f"{target}, compared with {source},")
    return {name: float(np.max(np.abs(both[0][name] - both[1][name]))) for name in both[0]}


def outputs(loaded: Checkpoint, lacking: Sequence[int] = ()) -> dict[str, np.ndarray]:
    """Returns the outputs of the network and its heads for a fixed batch that has padding and two segments.

    Args:
        lacking: ids that the batch does not have, because a format has no rows for them.
    """
    backbone = folder.build_with(folder.model_class(loaded.model), loaded.config, loaded.values, loaded.model)
    batch = example_batch(loaded.config)
    batch["token_ids"] = np.where(np.isin(batch["token_ids"], lacking), 1, batch["token_ids"]).astype("int32")
    batch |= _other_features(backbone, batch["padding_mask"])
    found = dict(backbone(batch))
    logits = {}
    if formats.has_table(loaded.model):
        table = formats.table_of(loaded.model, loaded.config)
        for head in table.heads:
            task = table.tasks.get(head.label)
            if task and (loaded.pooling or task.own_flags(loaded)):
                continue  # its head reads other states than the table says, or has more parts
            if head.label in loaded.heads or head.label not in table.groups:  # the latter have no weights
                logits[f"{head.label}_logits"] = _logits(head, found, batch, backbone, loaded)
    return {name: keras.ops.convert_to_numpy(value) for name, value in (found | logits).items()}


def _logits(head: formats.Head, found, batch, backbone, loaded: Checkpoint):
    """Returns what a head says of the outputs of the network, with its weights of the checkpoint."""
    num_classes = tensors.num_classes(loaded.values, formats.table_of(loaded.model, loaded.config))
    objective = head.make(loaded.config, num_classes)
    logits = head.logits(objective, found, batch, backbone)  # creates the weights
    if not objective.weights:
        return logits
    values = {name: v for name, v in loaded.values.items() if not any(part in name for part in ours.OF_PRETRAINING)}
    folder.assign(objective.prefix, objective, values, loaded.model)
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
    module = module_of(kind)
    return module.MODEL if kind in find.names() else module.model_of(path)


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
