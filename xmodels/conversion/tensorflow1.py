"""Folders of Google's BERT code: bert_model.ckpt.*, bert_config.json, vocab.txt."""

import os
import re

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion import formats
from xmodels.conversion.hugging_face import write_json
from xmodels.conversion.vocabularies import read_ours
from xmodels.models.folder import TOKENIZER, read_json

CHECKPOINT, CONFIG = "bert_model.ckpt", "bert_config.json"
MODEL = "bert"
OPTIMIZER = re.compile(r"(^|/)((adam|lamb)_[mv]|Adam|LAMB)(_\d+)?$|^(global_step|beta[12]_power)$")


def read(path: str) -> formats.Loaded:
    """Reads a checkpoint by its prefix, or by the folder that holds it.

    Raises:
        CheckpointError: a file is missing or damaged, or a variable is not accounted for.
    """
    prefix = _prefix(path)
    folder = os.path.dirname(prefix)
    table = formats.table_of(MODEL)
    source = os.path.join(folder, CONFIG)
    config = formats.config_from(table.TENSORFLOW1, read_json(source), table.CONFIG, source)
    return formats.loaded(
        _tensors(prefix),
        table.TENSORFLOW1.variables,
        MODEL,
        config,
        prefix,
        tokenizer=read_ours(folder),
    )


def write(path: str, loaded: formats.Loaded) -> None:
    """Fills the existing folder `path` with what Google's code reads."""
    import tensorflow as tf

    table = formats.table_of(loaded.model)
    settings = formats.config_to(table.TENSORFLOW1, loaded.config, CONFIG)
    tensors = formats.tensors_from(loaded.values, table.TENSORFLOW1.variables, table, loaded.config)
    tf.raw_ops.SaveV2(
        prefix=os.path.join(path, CHECKPOINT),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(tensor) for tensor in tensors.values()],
    )
    write_json(os.path.join(path, CONFIG), settings)
    if loaded.tokenizer:
        loaded.tokenizer.write(path)
        if loaded.tokenizer.kind != "wordpiece":  # of which its files tell the kind
            write_json(os.path.join(path, TOKENIZER), loaded.tokenizer.settings)


def _prefix(path: str) -> str:
    """The prefix of the checkpoint that the user means."""
    if not os.path.isdir(path):
        if not os.path.isfile(f"{path}.index"):
            raise CheckpointError(f"{path}: neither a folder nor a checkpoint; there is no {path}.index.")
        return path
    found = sorted(name.removesuffix(".index") for name in os.listdir(path) if name.endswith(".index"))
    if CHECKPOINT in found or len(found) == 1:
        return os.path.join(path, CHECKPOINT if CHECKPOINT in found else found[0])
    raise CheckpointError(f"{path}: expected one checkpoint. Found: {', '.join(found) or 'none'}.")


def _tensors(prefix: str) -> dict[str, np.ndarray]:
    """All variables but those of the optimizer."""
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(prefix)
        names = [name for name in reader.get_variable_to_shape_map() if not OPTIMIZER.search(name)]
        return {name: np.asarray(reader.get_tensor(name)) for name in names}
    except (tf.errors.OpError, LookupError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{prefix}: not a readable TensorFlow checkpoint ({error}).") from None
