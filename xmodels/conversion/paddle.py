"""ERNIE by PaddlePaddle's names: a folder with ernie_config.json, vocab.txt, and the parameters: `params/` as released, one file, as
safetensors or `.npz`, or a `.pdparams`.

The last is a pickle, so it is read where that is allowed explicitly; then nothing but arrays of numpy is made of it.
"""

import dataclasses
import os
import re
from collections.abc import Mapping

import numpy as np

from data_pipelines.errors import CheckpointError, DataError
from xmodels.conversion import configurations, formats, tensors
from xmodels.conversion.hugging_face import write_json
from xmodels.conversion.npz import read_npz
from xmodels.conversion.paddle_tensors import read_tensor
from xmodels.conversion.pickles import check_allowed, unpickle_arrays
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import VOCABULARY, read_json, read_weights, write_weights

WEIGHTS, SINGLE = "model.safetensors", "params"  # the latter a folder, with a file for each tensor
ENDINGS = (".safetensors", ".npz", ".pdparams")  # in the order in which they are preferred
OPTIMIZER = ("_moment1_", "_moment2_", "_beta1_pow_acc", "_beta2_pow_acc", "@LR_DECAY", "learning_rate")


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a folder, or the file of its parameters.

    Raises:
        CheckpointError: a file is missing or damaged, a pickle is not allowed, or a tensor is not accounted for.
    """
    folder, file = (path, _weights_of(path)) if os.path.isdir(path) else (os.path.dirname(path) or ".", path)
    model = model_of(path)
    table = formats.table_of(model)
    form, source = table.paddle, os.path.join(folder, table.paddle.config_file)
    config = configurations.config_from(form, read_json(source), table.config, source)
    found, left = _tensors(file, allow_pickle), []
    if "task_embedding" in found and not config.num_tasks:  # released networks hold the table and do not use it
        del found["task_embedding"]
        left.append(f"{file}: task_embedding is left out, as `use_task_id` is not set in {form.config_file}.")
    if heads := _other_heads(found, form):
        found = {name: value for name, value in found.items() if name not in heads}
        left.append(f"{file}: {', '.join(heads)} are left out; the heads of these tasks have no place here.")
    tokenizer = _tokenizer(folder)
    loaded = tensors.make_checkpoint(found, table.variables(form), model, config, file, tokenizer=tokenizer)
    values = _reverse_classes(loaded.values, form)
    return dataclasses.replace(loaded, values=values, warnings=(*loaded.warnings, *left), form=form)


def model_of(path: str) -> str:
    """Returns the network of which there are folders of PaddlePaddle; their configuration does not tell it."""
    return next(iter(formats.models_with("paddle")))


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`.

    Raises:
        CheckpointError: there is no such format of this network, or it cannot express the checkpoint.
    """
    table = formats.table_of(loaded.model)
    form = table.paddle
    if form is None:
        raise CheckpointError(f"paddle: nothing reads a {loaded.model} in this format. It is there for ernie.")
    settings = configurations.config_to(form, loaded.config, form.config_file, loaded.form)
    written = tensors.to_their_tensors(
        _reverse_classes(loaded.values, form), table.variables(form), table, loaded.config
    )
    write_weights(written, os.path.join(path, WEIGHTS))
    write_json(os.path.join(path, form.config_file), settings)
    if loaded.tokenizer:
        loaded.tokenizer.write(path)


def _weights_of(folder: str) -> str:
    names = sorted(os.listdir(folder))
    if SINGLE in names and not any(name.endswith(ENDINGS) for name in names):
        return os.path.join(folder, SINGLE)
    for ending in ENDINGS:
        fitting = [name for name in names if name.endswith(ending)]
        if len(fitting) == 1:
            return os.path.join(folder, fitting[0])
        if fitting:
            raise CheckpointError(f"{folder}: several files of parameters, {', '.join(fitting)}. Name the one to read.")
    raise CheckpointError(
        f"{folder}: expected the parameters in {SINGLE}/, or as one file that ends in {', '.join(ENDINGS)}."
    )


def _tensors(path: str, allow_pickle: bool) -> dict[str, np.ndarray]:
    """Returns all parameters but those of the optimizer."""
    if os.path.isdir(path):
        names = [name for name in sorted(os.listdir(path)) if _is_weight(name)]
        return {name: read_tensor(os.path.join(path, name)) for name in names}
    return {name: value for name, value in _of_file(path, allow_pickle).items() if _is_weight(name)}


def _of_file(path: str, allow_pickle: bool) -> dict[str, np.ndarray]:
    if path.endswith(".safetensors"):
        return read_weights(path)
    if path.endswith(".pdparams"):
        check_allowed(path, allow_pickle)
        stored = unpickle_arrays(path)
        names = stored.pop("StructuredToParameterName@@", {})
        return {str(names.get(name, name)): value for name, value in stored.items()}
    return read_npz(path)


def _other_heads(found: Mapping[str, np.ndarray], form: formats.Paddle) -> list[str]:
    """Returns the tensors of heads that have no place here."""
    known = set(form.names.values())
    return [name for name in found if form.other_heads and re.fullmatch(form.other_heads, name) and name not in known]


def _is_weight(name: str) -> bool:
    return not any(part in name for part in OPTIMIZER)


def _reverse_classes(values: Mapping[str, np.ndarray], form: formats.Paddle) -> dict[str, np.ndarray]:
    """Returns the values with those classes that are counted the other way round; its own inverse."""
    turned = {name: np.ascontiguousarray(values[name][..., ::-1]) for name in form.reversed_classes if name in values}
    return {**values, **turned}


def _tokenizer(folder: str) -> TokenizerFiles | None:
    """Returns the vocabulary: a token a line, perhaps with its id behind a tab."""
    path = os.path.join(folder, VOCABULARY)
    if not os.path.isfile(path):
        return None
    tokens = []
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file):
                token, tab, identity = line.rstrip("\r\n").partition("\t")
                if tab and identity.strip() != str(number):
                    raise DataError(
                        f"{path}, line {number + 1}: {token} has the id {identity.strip()}, expected {number}."
                    )
                tokens.append(token)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}).") from None
    text = "".join(f"{token}\n" for token in tokens)
    return TokenizerFiles({VOCABULARY: text.encode()}, {"tokenizer": "wordpiece", "do_lower_case": True}, folder)
