"""Folders of the `sentence-transformers` library: an encoder of Hugging Face, a pooling, perhaps a Dense layer and a length of 1.

`modules.json` lists the steps; each has a folder. Both spellings of the pooling are read, that of version 6 and the older one,
which is written, as all versions read it.
"""

import os
from collections.abc import Mapping

import numpy as np

from data_pipelines import strict_json
from data_pipelines.errors import CheckpointError
from xmodels.conversion import hugging_face
from xmodels.conversion.pickles import check_allowed, unpickle
from xmodels.layers.poolings import JOINT, is_known, parts
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import CONFIG, check_finite, read_json, read_weights, write_weights
from xmodels.models.sentence_encoder import SentenceEncoder
from xmodels.tasks.base import find

PREFIX = "sentence_transformers:"
MODULES, LIBRARY = "modules.json", "config_sentence_transformers.json"
LENGTHS = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)  # of the encoder, by the age of the library
STEPS = ("Transformer", "Pooling", "Dense", "Normalize")  # in this order; the last two may be absent
TYPE = "sentence_transformers.models."
# Ours -> the flag of older versions, and the name of newer ones; in the order in which older ones put several side by side.
POOLINGS = {
    "first": ("pooling_mode_cls_token", "cls"),
    "max": ("pooling_mode_max_tokens", "max"),
    "mean": ("pooling_mode_mean_tokens", "mean"),
    "mean_sqrt_len": ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    "weighted_mean": ("pooling_mode_weightedmean_tokens", "weightedmean"),
    "last": ("pooling_mode_lasttoken", "lasttoken"),
}
ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh", "torch.nn.modules.linear.Identity": "linear",
}  # fmt: skip
LINEAR, DENSE_WEIGHTS, DENSE_PICKLE = "linear", "model.safetensors", "pytorch_model.bin"


def task() -> str:
    """Returns the task whose runs are such folders: that with `to_encoder` in its `convert.py`."""
    return next(name for name in find.names() if hasattr(find.own(name, "convert"), "to_encoder"))


def is_named(name: str) -> bool:
    """Returns whether a name means such a folder."""
    return name.startswith(PREFIX)


def read(path: str, allow_pickle: bool = False) -> SentenceEncoder:
    """Reads a folder that `SentenceTransformer.save` wrote.

    Raises:
        CheckpointError: a file is missing or damaged, or a step cannot be done here.
    """
    steps = _steps(path)
    encoder = hugging_face.read(steps["Transformer"], allow_pickle)
    if encoder.tokenizer is None:
        raise CheckpointError(f"{steps['Transformer']}: holds no vocabulary.")
    _check_prompts(path)
    _check_case(steps["Transformer"], encoder)
    encoder = encoder.without_heads()
    check_finite(encoder.values, path)
    dense = _read_dense(steps["Dense"], allow_pickle) if "Dense" in steps else None
    length = _length(steps["Transformer"], encoder.config.max_sequence_length)
    return SentenceEncoder(encoder, _read_pooling(steps["Pooling"]), length, dense, "Normalize" in steps)


def _steps(path: str) -> dict[str, str]:
    """Returns the folders of the steps, by the last word of their types."""
    source = os.path.join(path, MODULES)
    if not os.path.isfile(source):
        raise CheckpointError(f"{path}: is no folder of sentence-transformers: there is no {MODULES}.")
    try:
        listed = strict_json.read(source)
    except ValueError as error:
        raise CheckpointError(f"{source}: not valid JSON ({error}).") from None
    entries = listed if isinstance(listed, list) else []
    if not entries or not all(
        isinstance(e, dict) and isinstance(e.get("type"), str) and isinstance(e.get("path"), str) for e in entries
    ):
        raise CheckpointError(f"{source}: expected a list of steps, each with `type` and `path`.")
    names = [entry["type"].rpartition(".")[2] for entry in entries]
    if names != [step for step in STEPS if step in names] or names[:2] != list(STEPS[:2]):
        raise CheckpointError(
            f"{source}: expected the steps Transformer, Pooling, perhaps Dense, perhaps Normalize. Found: {', '.join(names)}."
        )
    for entry in entries:
        if os.path.basename(entry["path"]) != entry["path"] or entry["path"] == "..":
            raise CheckpointError(f"{source}: {entry['path']!r} is not a folder in this one.")
    return {name: os.path.join(path, entry["path"]).rstrip(os.sep) for name, entry in zip(names, entries, strict=True)}


def _read_pooling(folder: str) -> str:
    source = os.path.join(folder, CONFIG)
    stored = read_json(source)
    flags, names = ({each[i]: ours for ours, each in POOLINGS.items()} for i in (0, 1))
    known = flags
    found = [key for key in flags if stored.get(key) is True]  # in the library's order, whatever that of the file
    found += [
        key for key, value in stored.items() if key.startswith("pooling_mode_") and value is True and key not in flags
    ]
    if (named := stored.get("pooling_mode")) is not None:
        known, found = names, named if isinstance(named, list) else [named]
    found = list(map(str, found))
    pooling = JOINT.join(known.get(each, "") for each in found)
    if not is_known(pooling):
        raise CheckpointError(
            f"{source}: expected some of the poolings {', '.join(names)}, each once. Found: {', '.join(found) or 'none'}."
        )
    return pooling


def _read_dense(folder: str, allow_pickle: bool) -> tuple[np.ndarray, np.ndarray, str]:
    source = os.path.join(folder, CONFIG)
    stored = read_json(source)
    activation = ACTIVATIONS.get(stored.get("activation_function"))
    if activation is None:
        named = stored.get("activation_function")
        raise CheckpointError(
            f"{source}: `activation_function` must be one of {', '.join(ACTIVATIONS)}. Found: {named!r:.80}."
        )
    weights, pickled = os.path.join(folder, DENSE_WEIGHTS), os.path.join(folder, DENSE_PICKLE)
    if os.path.isfile(weights):
        found = read_weights(weights)
    else:
        check_allowed(pickled, allow_pickle)
        weights, found = pickled, unpickle(pickled)
    kernel = found.get(f"{LINEAR}.weight")
    if kernel is None or kernel.ndim != 2 or set(found) - {f"{LINEAR}.weight", f"{LINEAR}.bias"}:
        raise CheckpointError(
            f"{weights}: expected {LINEAR}.weight and perhaps {LINEAR}.bias. Found: {', '.join(sorted(found))[:200]}."
        )
    bias = found.get(f"{LINEAR}.bias", np.zeros(len(kernel), np.float32))
    if bias.shape != (len(kernel),):
        raise CheckpointError(f"{weights}: {LINEAR}.bias has the shape {bias.shape}, expected ({len(kernel)},).")
    check_finite({f"{LINEAR}.weight": kernel, f"{LINEAR}.bias": bias}, weights)
    return np.ascontiguousarray(kernel.T, np.float32), np.asarray(bias, np.float32), activation


def _length(folder: str, positions: int) -> int:
    """Returns the longest text: as the library says, else as the tokenizer does, but no more than the network has positions."""
    for name, key in (*((name, "max_seq_length") for name in LENGTHS), ("tokenizer_config.json", "model_max_length")):
        source = os.path.join(folder, name)
        found = read_json(source).get(key) if os.path.isfile(source) else None
        if found is None:
            continue
        if type(found) not in (int, float) or not found >= 4:
            raise CheckpointError(f"{source}: `{key}` must be a whole number from 4. Found: {found!r:.40}.")
        return int(min(found, positions))
    return positions


def _check_prompts(path: str) -> None:
    """Raises a CheckpointError where texts get a prompt before them, which changes all vectors."""
    source = os.path.join(path, LIBRARY)
    stored = read_json(source) if os.path.isfile(source) else {}
    if stored.get("default_prompt_name") is not None:
        raise CheckpointError(
            f"{source}: puts the prompt {stored['default_prompt_name']!r:.40} before each text, which is not known here."
        )


def _check_case(folder: str, encoder: Checkpoint) -> None:
    """Raises a CheckpointError where the library lower-cases texts before a tokenizer that does not."""
    lowers = encoder.tokenizer.open().do_lower_case
    for name in LENGTHS:
        source = os.path.join(folder, name)
        if os.path.isfile(source) and read_json(source).get("do_lower_case") is True and not lowers:
            raise CheckpointError(
                f"{source}: lower-cases texts, but the tokenizer keeps capital letters; this is not known here."
            )


def write(path: str, made: SentenceEncoder) -> None:
    """Fills the existing folder `path` with what `SentenceTransformer` reads.

    Raises:
        CheckpointError: the pooling has no place there, or Hugging Face's format has none for the network.
    """
    chosen = parts(made.pooling)
    if not set(chosen) <= set(POOLINGS):
        raise CheckpointError(
            f"{path}: sentence-transformers has no pooling {made.pooling!r}; it has those called {', '.join(POOLINGS)} here."
        )
    hugging_face.write(path, made.encoder)
    width = made.encoder.config.hidden_dim
    if list(chosen) == [ours for ours in POOLINGS if ours in chosen]:  # as older versions say it, which newer ones know
        how = {flag: ours in chosen for ours, (flag, _) in POOLINGS.items()}
    else:
        how = {"pooling_mode": [POOLINGS[ours][1] for ours in chosen]}
    files: dict[str, Mapping] = {
        LENGTHS[0]: {"max_seq_length": made.max_sequence_length, "do_lower_case": False},  # the tokenizer does it
        LIBRARY: {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
        f"1_Pooling/{CONFIG}": {"word_embedding_dimension": width, **how, "include_prompt": True},
    }
    folders = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if made.dense:
        kernel, bias, activation = made.dense
        name = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)
        shape = {"in_features": kernel.shape[0], "out_features": kernel.shape[1]}
        files[f"2_Dense/{CONFIG}"] = {**shape, "bias": True, "activation_function": name}
        folders.append(("2_Dense", "Dense"))
    if made.normalize:
        folders.append((f"{len(folders)}_Normalize", "Normalize"))
    for folder, _ in folders[1:]:
        os.mkdir(os.path.join(path, folder))
    if made.dense:
        tensors = {f"{LINEAR}.weight": np.ascontiguousarray(kernel.T), f"{LINEAR}.bias": bias}
        write_weights(tensors, os.path.join(path, "2_Dense", DENSE_WEIGHTS), "pt")
    steps = [
        {"idx": i, "name": str(i), "path": folder, "type": TYPE + kind} for i, (folder, kind) in enumerate(folders)
    ]
    for name, value in {**files, MODULES: steps}.items():
        hugging_face.write_json(os.path.join(path, name), value)
