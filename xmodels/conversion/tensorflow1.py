"""Folders of a TensorFlow 1 checkpoint: the weights, the configuration that tells the network, and a vocabulary."""

import dataclasses
import glob
import os
import re

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion import configurations, formats, tensors
from xmodels.conversion.hugging_face import write_json
from xmodels.conversion.vocabularies import read_ours, read_renamed, read_sentence_pieces
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import TOKENIZER, read_json

PREFIX = re.compile(r"\.ckpt(-\w+)?$")
OPTIMIZER = re.compile(r"(^|/)((adam|lamb)_[mv]|Adam|LAMB)(_\d+)?$|^(global_step|beta[12]_power)$")


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a checkpoint by its prefix, or by the folder that holds it.

    Raises:
        CheckpointError: a file is missing or damaged, or a variable is not accounted for.
    """
    prefix, model = _prefix(path), model_of(path)
    folder = os.path.dirname(prefix)
    table = formats.table_of(model)
    form = table.tensorflow1
    source = os.path.join(folder, form.config_file)
    config = configurations.config_from(form, read_json(source), table.config, source)
    tokenizer = (
        read_ours(folder)
        or read_renamed(folder, form.vocabulary_files)
        or read_sentence_pieces(folder, form.sentence_pieces)
    )
    loaded = tensors.make_checkpoint(
        _rename(_tensors(prefix), form, prefix), table.variables(form), model, config, prefix, tokenizer=tokenizer
    )
    return dataclasses.replace(loaded, form=form)


def split_prefix(target: str) -> tuple[str, str | None]:
    """Returns a folder to write into, and the prefix of the files there; of `FOLDER/bert_model.ckpt` as of `FOLDER`."""
    folder, name = os.path.split(target)
    return (folder or ".", name) if PREFIX.search(name) else (target, None)


def write(path: str, loaded: Checkpoint, prefix: str | None = None) -> None:
    """Fills the existing folder `path` with what the original code reads.

    Args:
        prefix: of the files of weights; by default that of the original code.

    Raises:
        CheckpointError: there is no such code for this network, or it cannot express the checkpoint.
    """
    import tensorflow as tf

    table = formats.table_of(loaded.model)
    form = table.tensorflow1
    if form is None:
        known = ", ".join(formats.models_with("tf1"))
        raise CheckpointError(f"tf1:{path}: nothing reads a {loaded.model} in this format. It is there for {known}.")
    settings = configurations.config_to(form, loaded.config, form.config_file, loaded.form)
    written = tensors.to_their_tensors(loaded.values, table.variables(form), table, loaded.config)
    tf.raw_ops.SaveV2(
        prefix=os.path.join(path, prefix or form.checkpoint),
        tensor_names=list(written),
        shape_and_slices=[""] * len(written),
        tensors=[tf.constant(tensor) for tensor in written.values()],
    )
    write_json(os.path.join(path, form.config_file), settings)
    if loaded.tokenizer:
        loaded.tokenizer.rename_files(form.vocabulary_files).write(path)
        if loaded.tokenizer.kind != "wordpiece":  # of which its files tell the kind
            write_json(os.path.join(path, TOKENIZER), loaded.tokenizer.settings)


def model_of(path: str) -> str:
    """Returns the network of a checkpoint, told from the configuration that lies beside it."""
    folder = os.path.dirname(_prefix(path))
    models = {form.config_file: model for model, form in formats.models_with("tf1").items()}
    found = [file for file in models if os.path.isfile(os.path.join(folder, file))]
    if len(found) != 1:
        raise CheckpointError(
            f"{folder or '.'}: expected one configuration: {' or '.join(models)}. Found: {', '.join(found) or 'none'}."
        )
    return models[found[0]]


def _prefix(path: str) -> str:
    """Returns the prefix of the checkpoint that the user means."""
    if not os.path.isdir(path):
        if not os.path.isfile(f"{path}.index"):
            raise CheckpointError(f"{path}: neither a folder nor a checkpoint; there is no {path}.index.")
        return path
    found = sorted(name.removesuffix(".index") for name in os.listdir(path) if name.endswith(".index"))
    usual = [form.checkpoint for form in formats.models_with("tf1").values() if form.checkpoint in found]
    if len(usual) == 1 or len(found) == 1:
        return os.path.join(path, (usual or found)[0])
    raise CheckpointError(f"{path}: expected one checkpoint. Found: {', '.join(found) or 'none'}.")


def _rename(found: dict[str, np.ndarray], form: formats.TensorFlow1, source: str) -> dict[str, np.ndarray]:
    """Returns the variables by the names of the table. Raises a CheckpointError where two would have one name."""
    renamed = {}
    for name, tensor in found.items():
        for old, new in form.renamed.items():
            name = re.sub(f"^{old}", new, name)
        if name in renamed:
            raise CheckpointError(f"{source}: {name} is there twice, under an old and a new name.")
        renamed[name] = tensor
    return renamed


def _tensors(prefix: str) -> dict[str, np.ndarray]:
    """Returns all variables but those of the optimizer."""
    import tensorflow as tf

    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        if not os.path.isfile(path):
            raise CheckpointError(f"{path}: is a folder, a pipe or a device, not a file.")
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = [name for name in reader.get_variable_to_shape_map() if not OPTIMIZER.search(name)]
        return {name: np.asarray(reader.get_tensor(name)) for name in names}
    except (tf.errors.OpError, LookupError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{prefix}: not a readable TensorFlow checkpoint ({error}).") from None
