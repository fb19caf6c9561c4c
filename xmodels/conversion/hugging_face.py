"""Folders of the `transformers` library: config.json, model.safetensors, vocab.txt, tokenizer_config.json."""

import json
import os
import pickle
import re

import ml_dtypes  # noqa: F401  teaches numpy what bfloat16 is
import numpy as np
from safetensors.numpy import save_file

from data_pipelines.errors import CheckpointError
from xmodels.conversion import formats
from xmodels.models.folder import CONFIG, TOKENIZER, VOCABULARY, read_json, read_weights, report_misfits

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
FAST_TOKENIZER = "tokenizer.json"


def read(path: str, allow_pickle: bool = False) -> formats.Loaded:
    """Reads a folder that `save_pretrained` wrote, of the present or of older versions.

    Raises:
        CheckpointError: a file is missing or damaged, a value cannot be expressed, or a tensor is not accounted for.
    """
    source = os.path.join(path, CONFIG)
    stored = read_json(source)
    table, model = formats.table_for(str(stored.get("model_type") or "bert"))  # files of 2018 do not say
    config = formats.config_from(table.HUGGING_FACE, stored, table.CONFIG, source)
    tensors, source = _tensors(path, allow_pickle)
    tensors = _without_duplicates(_present_names(tensors, table, source), table, source)
    return formats.loaded(
        tensors,
        table.HUGGING_FACE.variables,
        model,
        config,
        source,
        vocabulary_text=_vocabulary_text(path),
        do_lower_case=lower_cases(os.path.join(path, TOKENIZER)),
        labels=_labels(stored),
    )


def write(path: str, loaded: formats.Loaded) -> None:
    """Fills the existing folder `path` with what `from_pretrained` reads."""
    table = formats.table_of(loaded.model)
    tensors = formats.tensors_from(loaded.values, table.HUGGING_FACE.variables, table, loaded.config)
    architecture = next(name for name, heads in table.ARCHITECTURES if heads <= loaded.heads)
    settings = {"architectures": [architecture], "dtype": "float32", "torch_dtype": "float32"}
    settings |= formats.config_to(table.HUGGING_FACE, loaded.config, CONFIG)
    tokens = [line.rstrip("\r") for line in (loaded.vocabulary_text or "").split("\n")]
    settings["pad_token_id"] = tokens.index("[PAD]") if "[PAD]" in tokens else 0
    if "classify" in loaded.heads:
        classes = range(len(loaded.values["objective.classify.head.bias"]))
        labels = loaded.labels or [f"LABEL_{index}" for index in classes]
        settings["id2label"] = {str(index): label for index, label in enumerate(labels)}
        settings["label2id"] = {label: index for index, label in enumerate(labels)}
    save_file(tensors, os.path.join(path, WEIGHTS), metadata={"format": "pt"})
    write_json(os.path.join(path, CONFIG), settings)
    write_text(os.path.join(path, VOCABULARY), loaded.vocabulary_text)
    if loaded.do_lower_case is not None:
        tokenizer = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": loaded.do_lower_case,
            "model_max_length": loaded.config.max_sequence_length,
        }
        write_json(os.path.join(path, TOKENIZER), tokenizer)


def read_text(path: str) -> str | None:
    """The text of a file with its line ends, or None if there is no such file."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not valid UTF-8 at byte {error.start}.") from None


def write_text(path: str, text: str | None) -> None:
    """Writes `text` as it is; nothing if there is none."""
    if text is not None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def write_json(path: str, values: dict) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def lower_cases(path: str) -> bool | None:
    """`do_lower_case` of a tokenizer_config.json, or None if it does not say."""
    value = read_json(path).get("do_lower_case") if os.path.isfile(path) else None
    if value is not None and not isinstance(value, bool):
        raise CheckpointError(f"{path}: `do_lower_case` must be true or false. Found: {value!r}.")
    return value


def _labels(stored: dict) -> tuple[str, ...] | None:
    """The labels of a config.json's `id2label`, where it names each class once."""
    names = stored.get("id2label")
    if not isinstance(names, dict) or sorted(names) != sorted(map(str, range(len(names)))):
        return None
    labels = tuple(names[str(index)] for index in range(len(names)))
    return labels if all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels) else None


def _vocabulary_text(path: str) -> str | None:
    """vocab.txt, or the same tokens from the tokenizer.json that version 5 writes instead."""
    text, fast = read_text(os.path.join(path, VOCABULARY)), os.path.join(path, FAST_TOKENIZER)
    if text is not None or not os.path.isfile(fast):
        return text
    model = read_json(fast).get("model")
    ids = model.get("vocab") if isinstance(model, dict) and model.get("type") == "WordPiece" else None
    if not isinstance(ids, dict) or list(range(len(ids))) != sorted(i for i in ids.values() if isinstance(i, int)):
        raise CheckpointError(f"{fast}: expected a WordPiece vocabulary with the ids 0, 1, 2, …")
    return "".join(f"{token}\n" for token in sorted(ids, key=ids.get))


def _tensors(path: str, allow_pickle: bool) -> tuple[dict[str, np.ndarray], str]:
    """All tensors of a folder, and the file that names them."""
    whole, index, pickled = (os.path.join(path, name) for name in (WEIGHTS, INDEX, PICKLE))
    if os.path.isfile(whole):
        return read_weights(whole), whole
    if os.path.isfile(index):
        return _shards(path, index), index
    if not os.path.isfile(pickled):
        raise CheckpointError(f"{path}: holds neither {WEIGHTS} nor {INDEX}.")
    if not allow_pickle:
        raise CheckpointError(
            f"{pickled}: no pickle is loaded without `--allow_pickle`, because a pickle can run code. "
            f"Prefer a {WEIGHTS}; otherwise pass the flag if you trust whoever made the file."
        )
    return _unpickle(pickled), pickled


def _shards(path: str, index: str) -> dict[str, np.ndarray]:
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise CheckpointError(f"{index}: expected `weight_map`, from the names of tensors to files.")
    outside = [file for file in files.values() if os.path.basename(file) != file]
    if outside:
        raise CheckpointError(f"{index}: {outside[0]!r} is not a file of this folder.")
    tensors = {}
    for file in sorted(set(files.values())):
        shard = os.path.join(path, file)
        found = read_weights(shard)
        wanted = dict.fromkeys((name for name in files if files[name] == file), ())
        report_misfits(wanted, dict.fromkeys(found, ()), f"{shard}, by its index,")
        tensors |= found
    return tensors


def _unpickle(path: str) -> dict[str, np.ndarray]:
    try:
        import torch
    except ImportError:
        raise CheckpointError(
            f"{path}: reading it needs PyTorch. Install it with `pip install torch`, or convert the file to {WEIGHTS}."
        ) from None
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise CheckpointError(f"{path}: not a readable PyTorch file of weights ({error}).") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise CheckpointError(f"{path}: expected a dictionary of tensors.")
    widened = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    return {name: tensor.numpy() for name, tensor in widened.items()}


def _present_names(tensors, table, source: str) -> dict[str, np.ndarray]:
    """Undoes what older versions and bare networks call differently."""
    bare = not any(name.startswith(table.PREFIX) for name in tensors)
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in table.OLD_ENDINGS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        if bare and name.split(".")[0] in table.BARE_PARTS:
            name = f"{table.PREFIX}{name}"
        if name in renamed:
            raise CheckpointError(f"{source}: {name} is there twice, under an old and a new name.")
        renamed[name] = tensor
    return renamed


def _without_duplicates(tensors, table, source: str) -> dict[str, np.ndarray]:
    """Drops buffers, and copies of tied tensors after a look at whether they are copies."""
    tensors = {name: tensor for name, tensor in tensors.items() if not _matches(name, table.BUFFERS)}
    for copy, original in table.TIED.items():
        if copy in tensors:
            tensor = tensors.pop(copy)
            if not np.array_equal(tensors.setdefault(original, tensor), tensor):
                raise CheckpointError(
                    f"{source}: {copy} differs from {original}; our network has one tensor for both, so it cannot "
                    "hold this checkpoint."
                )
    return tensors


def _matches(name: str, patterns) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
