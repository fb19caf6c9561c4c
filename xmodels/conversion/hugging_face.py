"""Folders of the `transformers` library: config.json, model.safetensors, and a tokenizer."""

import dataclasses
import json
import os

import ml_dtypes  # noqa: F401  teaches numpy what bfloat16 is
import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import BOS, CLS, EOS, PAD
from xmodels.conversion import configurations, formats, tensors
from xmodels.conversion import hugging_face_heads as heads
from xmodels.conversion.pickles import check_allowed, unpickle
from xmodels.conversion.tokenizer_writing import write_hugging_face
from xmodels.conversion.vocabularies import read_hugging_face
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import CONFIG, read_json, read_weights, report_misfits, write_weights

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
GENERATION = "generation_config.json"
DECODER_START = "decoder_start_token_id"
DECODER_IDS = (DECODER_START, "forced_bos_token_id", "forced_eos_token_id")
SPECIAL_IDS = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a folder that `save_pretrained` wrote, of the present or of older versions.

    Raises:
        CheckpointError: a file is missing or damaged, a value cannot be expressed, or a tensor is not accounted for.
    """
    source = os.path.join(path, CONFIG)
    stored = read_json(source)
    table, model = formats.table_for(stored)
    form = table.hugging_face
    config = configurations.config_from(form, stored, table.config, source)
    special_ids, warnings = _special_ids(stored, config.vocabulary_size, source)
    generation = os.path.join(path, GENERATION)
    generation = read_json(generation) if os.path.lexists(generation) else None
    decoder_ids = _decoder_ids(path, stored, generation, config.vocabulary_size) if form.decoder_start else {}
    found, source = _tensors(path, allow_pickle)
    found = _rename_old(found, form, source)
    config = form.refine(config, found)
    config_file = os.path.join(path, CONFIG)
    task = heads.task_of_head(table, stored, found, config_file)
    variables = heads.leave_out_absent(table, heads.variables_of(table, task), found)
    own = {theirs for _, _, theirs, _ in tensors.rows(variables, table, config, len(found) + 1)}
    loaded = tensors.make_checkpoint(
        _without_duplicates(found, form, own, source),
        variables,
        model,
        config,
        source,
        tokenizer=read_hugging_face(
            path,
            form.frame if CLS in form.frame.roles or form.decoder_start else None,
            getattr(config, "num_segments", None),
        ),
        labels=heads.labels_of(table, task, stored),
    )
    of_head = heads.warnings_of(table, loaded, stored, config_file)
    doubts = [f"{config_file}: {doubt}" for doubt in form.warnings(stored)]
    return dataclasses.replace(
        loaded, special_ids=special_ids, generation=generation, decoder_ids=decoder_ids,
        warnings=(*loaded.warnings, *warnings, *of_head, *doubts), form=form,
    )  # fmt: skip


def model_of(path: str) -> str:
    """Returns our network of a folder."""
    return formats.table_for(read_json(os.path.join(path, CONFIG)))[1]


def _special_ids(stored: dict, vocabulary_size: int, source: str) -> tuple[dict[str, int], list[str]]:
    """Returns the ids of special tokens that a config.json names, and warnings about those that no token has."""
    named = {key: stored[key] for key in SPECIAL_IDS if stored.get(key) is not None}
    known = {key: value for key, value in named.items() if type(value) is int and 0 <= value < vocabulary_size}
    return known, [
        f"{source}: `{key}` {value!r:.40} is the id of no token of the vocabulary of {vocabulary_size}; it is left out."
        for key, value in named.items()
        if key not in known
    ]


def _decoder_ids(path: str, stored: dict, generation: dict | None, vocabulary_size: int) -> dict[str, int | None]:
    """Returns the ids with which a decoder begins and ends its texts, of generation_config.json, or, where there is none, of
    config.json.

    Raises:
        CheckpointError: one is the id of no token.
    """
    said, source = (stored, CONFIG) if generation is None else (generation, GENERATION)
    if said.get(DECODER_START) is None and stored.get(DECODER_START) is not None:
        said, source = stored, CONFIG
    if said.get(DECODER_START) is None:
        return {}
    found = {key: said.get(key) for key in DECODER_IDS}
    if (
        found["forced_bos_token_id"] is None and stored.get("force_bos_token_to_be_generated") is True
    ):  # as folders of 2020 say it
        found["forced_bos_token_id"] = stored.get("bos_token_id", 0)
    for key, value in found.items():
        if value is not None and (type(value) is not int or not 0 <= value < vocabulary_size):
            raise CheckpointError(
                f"{os.path.join(path, source)}: `{key}` {value!r:.40} is the id of no token of the vocabulary of {vocabulary_size}."
            )
    return found


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path` with what `from_pretrained` reads."""
    table = formats.table_of(loaded.model, loaded.config)
    form = table.hugging_face
    architecture = next(name for name, own in table.classes if own <= loaded.heads)
    settings = {"architectures": [architecture], "dtype": "float32", "torch_dtype": "float32"}
    settings |= configurations.config_to(form, loaded.config, CONFIG, loaded.form)
    special_ids = _special_token_ids(loaded, form)
    settings |= special_ids | form.infer_settings(loaded.config)
    settings |= heads.settings_of(table, loaded, tensors.num_classes(loaded.values, table))
    written = tensors.to_their_tensors(loaded.values, table.variables(form), table, loaded.config)
    written |= {spare: written[original] for spare, original in form.spares.items() if original in written}
    write_weights(written, os.path.join(path, WEIGHTS), "pt")
    write_json(os.path.join(path, CONFIG), settings)
    if form.continues or loaded.generation is not None:
        write_json(os.path.join(path, GENERATION), loaded.generation or {"_from_model_config": True, **special_ids})
    if loaded.tokenizer:
        write_hugging_face(path, loaded.tokenizer, loaded.config.max_sequence_length, form)


def _special_token_ids(loaded: Checkpoint, form: formats.HuggingFace) -> dict[str, int]:
    """Returns the ids of special tokens: those that the source names, else by the roles of the vocabulary."""
    roles = loaded.tokenizer.open().vocabulary.roles if loaded.tokenizer else {}
    wanted = SPECIAL_IDS if form.continues else {"pad_token_id": PAD}
    found = {key: roles[role] for key, role in wanted.items() if role in roles}
    if form.decoder_start in roles:
        found["decoder_start_token_id"] = roles[form.decoder_start]
    if loaded.form is None:  # what others have written says itself what it forces
        found |= {key: roles[role] for key, role in form.forced.items() if role in roles}
    found |= {key: value for key, value in loaded.decoder_ids.items() if value is not None}
    return ({} if form.continues else {"pad_token_id": 0}) | found | dict(loaded.special_ids)


def write_json(path: str, values: dict) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def _tensors(path: str, allow_pickle: bool) -> tuple[dict[str, np.ndarray], str]:
    """Returns all tensors of a folder, and the file that names them."""
    whole, index, pickled = (os.path.join(path, name) for name in (WEIGHTS, INDEX, PICKLE))
    if os.path.isfile(whole):
        return read_weights(whole), whole
    if os.path.isfile(index):
        return _shards(path, index), index
    if not os.path.isfile(pickled):
        raise CheckpointError(f"{path}: holds neither {WEIGHTS} nor {INDEX}.")
    check_allowed(pickled, allow_pickle)
    return _read_pickle(pickled), pickled


def _shards(path: str, index: str) -> dict[str, np.ndarray]:
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise CheckpointError(f"{index}: expected `weight_map`, from the names of tensors to files.")
    outside = [file for file in files.values() if os.path.basename(file) != file]
    if outside:
        raise CheckpointError(f"{index}: {outside[0]!r} is not a file of this folder.")
    joined = {}
    for file in sorted(set(files.values())):
        shard = os.path.join(path, file)
        found = read_weights(shard)
        wanted = dict.fromkeys((name for name in files if files[name] == file), ())
        report_misfits(wanted, dict.fromkeys(found, ()), f"{shard}, by its index,")
        joined |= found
    return joined


def _read_pickle(path: str) -> dict[str, np.ndarray]:
    found = unpickle(path)
    if not isinstance(found, dict) or not all(isinstance(tensor, np.ndarray) for tensor in found.values()):
        raise CheckpointError(f"{path}: expected a dictionary of tensors.")
    return found


def _rename_old(found: dict[str, np.ndarray], form: formats.HuggingFace, source: str) -> dict[str, np.ndarray]:
    """Undoes what older versions and bare networks call differently."""
    bare = not any(name.startswith(form.prefix) for name in found)
    renamed = {}
    for name, tensor in found.items():
        for old, new in form.old_endings.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        if bare and name.split(".")[0] in form.bare_parts:
            name = f"{form.prefix}{name}"
        if name in renamed:
            raise CheckpointError(f"{source}: {name} is there twice, under an old and a new name.")
        renamed[name] = tensor
    return renamed


def _without_duplicates(
    found: dict[str, np.ndarray], form: formats.HuggingFace, own: set[str], source: str
) -> dict[str, np.ndarray]:
    """Drops buffers, and copies of tied tensors after a check that they are copies; `own` are neither in this network."""
    kept = {name: tensor for name, tensor in found.items() if name in own or not form.is_buffer(name)}
    for spare, original in form.spares.items():
        if spare in kept:
            kept.setdefault(original, kept.pop(spare))
    for copy, original in form.tied.items():
        if copy in kept and copy not in own:
            tensor = kept.pop(copy)
            if not np.array_equal(kept.setdefault(original, tensor), tensor):
                raise CheckpointError(
                    f"{source}: {copy} differs from {original}; our network has one tensor for both, so it cannot "
                    "hold this checkpoint."
                )
    return kept
