"""Presets of KerasHub: a folder with config.json, model.weights.h5, and the files of a tokenizer.

Reading looks into the files and imports nothing of KerasHub, so nothing that a folder names is built or run. Writing has KerasHub
write a preset of that shape, and puts the weights in.
"""

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Mapping

import h5py
import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion import configurations, formats, tensors
from xmodels.conversion.hdf5 import dataset_names, read_arrays
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import CONFIG, read_json
from xmodels.tasks.base.published_head import SINGLE_LABEL

WEIGHTS, TASK_WEIGHTS, TASK, TOKENIZER = "model.weights.h5", "task.weights.h5", "task.json", "tokenizer.json"
ASSETS = os.path.join("assets", "tokenizer")
WORD_PIECES, PIECES, MERGES, SENTENCE_PIECES = "vocabulary.txt", "vocabulary.json", "merges.txt", "vocabulary.spm"
BLOCK = re.compile(r"(layers/transformer_(?:en|de)coder)(?:_(\d+))?/")
# Those of the decoder are counted behind those of the encoder.
T5_BLOCK = re.compile(r"layers/t5_transformer_layer(?:_(\d+))?/")


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a preset.

    Raises:
        CheckpointError: a file is missing or damaged, the network is not one that is known, or a tensor is not accounted for.
    """
    source = os.path.join(path, CONFIG)
    stored = read_json(source)
    model, form = form_for(stored, source)
    table = formats.table_of(model)
    numbers = stored.get("config")
    if not isinstance(numbers, dict):
        raise CheckpointError(f"{source}: expected the numbers of a {form.class_name} under `config`.")
    config = configurations.config_from(form, numbers, table.config, source)
    file = os.path.join(path, WEIGHTS)
    found = {_number_layers(name, config): value for name, value in _weights(file).items()}
    found |= _head(path, form)
    for name in form.positions:
        if name in found and found[name].ndim == 2:
            found[name] = np.concatenate([np.zeros((config.first_position, found[name].shape[1]), "f4"), found[name]])
    loaded = tensors.make_checkpoint(
        found, table.variables(form), model, config, file, tokenizer=_tokenizer(path, form, config)
    )
    alone = {ours: np.zeros((1, config.hidden_dim), "float32") for ours in form.folded}
    return dataclasses.replace(loaded, values={**loaded.values, **alone})


def form_for(stored: Mapping, source: str) -> tuple[str, formats.KerasHub]:
    """Returns our network of a configuration of KerasHub, and its names there."""
    forms = formats.models_with("keras_hub")
    for model, form in forms.items():
        if stored.get("class_name") == form.class_name:
            return model, form
    known = ", ".join(form.class_name for form in forms.values())
    raise CheckpointError(f"{source}: a network of the class {stored.get('class_name')!r}. Known: {known}.")


def model_of(path: str) -> str:
    """Returns our network of a preset."""
    source = os.path.join(path, CONFIG)
    return form_for(read_json(source), source)[0]


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`.

    Raises:
        CheckpointError: there is no such format of this network, or it cannot express the checkpoint.
    """
    form, table = formats.table_of(loaded.model).keras_hub, formats.table_of(loaded.model)
    if form is None:
        raise CheckpointError(
            f"keras_hub: presets of a {loaded.model} are not written. Known: {', '.join(formats.models_with('keras_hub'))}."
        )
    numbers = configurations.config_to(form, loaded.config, f"keras_hub: {CONFIG}", loaded.form)
    task, task_class = _task_of(table, loaded)
    parts = ("backbone.", f"objective.{task}.") if task else ("backbone.",)
    named = {ours: row for ours, row in table.variables(form).items() if ours.startswith(parts)}
    both = {whole: loaded.values[whole] + loaded.values[ours] for ours, whole in form.folded.items()}
    weights = tensors.to_their_tensors({**loaded.values, **both}, named, table, loaded.config)
    for name in form.positions:
        weights[name] = weights[name][loaded.config.first_position :]
    classes = {"num_classes": tensors.num_classes(loaded.values, table)} if task in table.tasks else {}
    _write_empty(path, form, numbers, loaded, task_class, classes)
    head = {name.removeprefix("task/"): value for name, value in weights.items() if name.startswith("task/")}
    _fill(os.path.join(path, WEIGHTS), {n: v for n, v in weights.items() if not n.startswith("task/")}, loaded.config)
    if head:
        _fill(os.path.join(path, TASK_WEIGHTS), head, loaded.config)


def _task_of(table: formats.Table, loaded: Checkpoint) -> tuple[str, str] | tuple[None, None]:
    """Returns the head that is written, and KerasHub's class of it; a classifier before a masked language model."""
    form = table.keras_hub
    classifiers = [task for task, head in table.tasks.items() if head.problem == SINGLE_LABEL]
    for task, name in (*((task, form.classifier) for task in classifiers), ("masked_lm", form.masked_lm)):
        if name and task in loaded.heads:
            return task, name
    return None, None


def _write_empty(
    path: str, form: formats.KerasHub, numbers: dict, loaded: Checkpoint, task_class: str | None, classes: dict
) -> None:
    """Lets KerasHub write a preset of this shape, with weights of its own, and a head where it has a class for that."""
    import keras_hub  # ten seconds, and all of its models

    backbone = getattr(keras_hub.models, form.class_name)(**numbers)
    tokenizer = _their_tokenizer(form, loaded.tokenizer)
    if not task_class:
        for part in (backbone, tokenizer):
            if part:
                part.save_to_preset(path)
        return
    preprocessor = tokenizer and getattr(keras_hub.models, f"{task_class}Preprocessor")(
        tokenizer, sequence_length=loaded.config.max_sequence_length
    )
    made = getattr(keras_hub.models, task_class)(backbone=backbone, preprocessor=preprocessor, **classes)
    made.save_to_preset(path)


def _weights(path: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a file of weights of Keras."""
    return read_arrays(
        path, lambda n: not n.startswith(("optimizer/", "seed_generator/")) and "/seed_generator" not in n
    )


def _number_layers(name: str, config) -> str:
    """Returns their name with the numbers of a layer as the tables have them: of groups that repeat layers two."""
    inner = getattr(config, "num_inner_layers", None)
    if match := T5_BLOCK.match(name):
        index = int(match[1] or 0)
        stack, place = ("encoder", index) if index < config.num_layers else ("decoder", index - config.num_layers)
        return f"layers/{stack}_{place}/{name[match.end() :]}"

    def number(match):
        index = int(match[2] or 0)
        return f"{match[1]}_{index}/" if inner is None else f"{match[1]}_{index // inner}_{index % inner}/"

    return BLOCK.sub(number, name)


def _fill(path: str, values: Mapping[str, np.ndarray], config) -> None:
    """Puts values in the place of those that stand in a file of weights."""
    with h5py.File(path, "r+") as file:
        places = {
            _number_layers(name, config): name for name in dataset_names(file) if not name.startswith("optimizer/")
        }
        missing = sorted(set(places) ^ set(values))
        if missing:
            raise CheckpointError(f"keras_hub: this version names its weights otherwise: {', '.join(missing[:5])}.")
        for name, value in values.items():
            file[places[name]][...] = value


def _head(path: str, form: formats.KerasHub) -> dict[str, np.ndarray]:
    """Returns the weights of a classifier or of a masked language model whose head is ours; other tasks are not read."""
    if not os.path.isfile(os.path.join(path, TASK)):
        return {}
    kind = read_json(os.path.join(path, TASK)).get("class_name")
    if kind not in (form.classifier, form.masked_lm) or not os.path.isfile(os.path.join(path, TASK_WEIGHTS)):
        return {}
    return {f"task/{name}": value for name, value in _weights(os.path.join(path, TASK_WEIGHTS)).items()}


def _tokenizer(folder: str, form: formats.KerasHub, config) -> TokenizerFiles | None:
    """Returns the vocabulary of a preset, with what its tokenizer.json says."""
    assets, path = os.path.join(folder, ASSETS), os.path.join(folder, TOKENIZER)
    stored = read_json(path).get("config") if os.path.isfile(path) else {}
    stored = stored if isinstance(stored, dict) else {}

    def read_asset(name):
        with open(os.path.join(assets, name), "rb") as file:
            return file.read()

    there = set(os.listdir(assets)) if os.path.isdir(assets) else set()
    if WORD_PIECES in there:
        settings = {"tokenizer": "wordpiece"}
        if isinstance(stored.get("lowercase"), bool):
            settings["do_lower_case"] = stored["lowercase"]
        return TokenizerFiles({"vocab.txt": read_asset(WORD_PIECES)}, settings, folder)
    if {PIECES, MERGES} <= there:
        settings = {"tokenizer": "byte_bpe", "do_lower_case": False}
        settings["add_prefix_space"] = stored.get("add_prefix_space") is True
        return TokenizerFiles({"vocab.json": read_asset(PIECES), "merges.txt": read_asset(MERGES)}, settings, folder)
    if SENTENCE_PIECES in there:
        found = TokenizerFiles({"spiece.model": read_asset(SENTENCE_PIECES)}, {"tokenizer": "sentencepiece"}, folder)
        if form.num_sentinels and len(found.open().vocabulary) + form.num_sentinels <= config.vocabulary_size:
            settings = {**found.settings, "num_sentinels": form.num_sentinels}
            return TokenizerFiles(found.files, settings, folder)
        return found
    return None


def _their_tokenizer(form: formats.KerasHub, files: TokenizerFiles | None):
    """KerasHub's tokenizer of a vocabulary; None without one.

    Raises:
        CheckpointError: it has none of that kind, or lacks tokens that it needs.
    """
    import keras_hub

    if files is None or files.unsure:
        return None
    made = getattr(keras_hub.models, form.tokenizer_class)
    try:
        if files.kind == "wordpiece" and form.word_pieces:
            with tempfile.TemporaryDirectory() as folder:
                files.write(folder)
                return made(vocabulary=os.path.join(folder, "vocab.txt"), lowercase=bool(files.do_lower_case))
        if files.kind == "byte_bpe" and form.byte_bpe and not files.do_lower_case:
            lines = [line.rstrip("\r") for line in files.files["merges.txt"].decode().split("\n")]
            merges = [line for line in lines if line and not line.startswith("#version")]
            return made(vocabulary=json.loads(files.files["vocab.json"]), merges=merges)
        if files.kind == "sentencepiece" and form.sentence_pieces and not files.do_lower_case:
            return made(proto=files.files["spiece.model"])
    except ValueError as error:
        raise CheckpointError(f"{files.source}: KerasHub's {form.tokenizer_class} refuses it: {error}") from None
    raise CheckpointError(
        f"{files.source}: KerasHub's {form.tokenizer_class} cannot cut as this tokenizer ({files.kind}) does. Move its files away: "
        "then the network is converted without."
    )
