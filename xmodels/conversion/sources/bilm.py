"""Networks of allenai/bilm-tf (ELMo): a folder with a `*weights.hdf5` and a `*options.json`.

The files hold no vocabulary, since the network reads characters, and no softmax.
"""

import glob
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from xmodels.conversion.hdf5 import read_arrays
from xmodels.conversion.rows import Row
from xmodels.conversion.tensors import cut, join
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.elmo import NUM_CHARACTERS, Elmo, ElmoConfig
from xmodels.models.folder import read_json, report_misfits

MODEL = "elmo"
TITLE = "bilm-tf's weights.hdf5 and options.json of ELMo"
WIDTH = Elmo.reads["character_ids"].shape[1]
DIRECTIONS = "ahead", "behind"  # RNN_0 and RNN_1
# TensorFlow's order of the gates is input, candidate, forget, output; ours has the candidate third. The swap is its own inverse.
ORDER = 0, 2, 1, 3
UNLIMITED = 1e6  # in place of no clipping
MIX = "elmo_W", "elmo_gamma"  # of a task, which some files hold


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a folder, or names the file that is missing or damaged.

    Raises:
        CheckpointError: a file is missing, a value cannot be expressed, or a tensor is missing, unexpected or of another shape.
    """
    source = _only(path, "options.json")
    config = _config(read_json(source), source)
    file = _only(path, "weights.hdf5")
    found = {name: value for name, value in read_arrays(file).items() if name.rpartition("/")[2] not in MIX}
    wanted = {row.theirs: row.shape for row in _rows(config)}
    found = cut(found, wanted)
    report_misfits(wanted, {name: value.shape for name, value in found.items()}, file)
    files = {"vocab.txt": "".join(f"{token}\n" for token in SPECIAL_TOKENS).encode()}
    settings = {"tokenizer": "word_characters", "do_lower_case": False, "segmenter": "none"}
    values = {f"backbone.{row.ours}": row.to_ours(found[row.theirs].astype(np.float32)) for row in _rows(config)}
    return Checkpoint(MODEL, config, values, TokenizerFiles(files, settings, path), system=MODEL)


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`. The softmax of the pretraining has no place there."""
    with open(os.path.join(path, "options.json"), "w", encoding="utf-8") as file:
        json.dump(_options(loaded.config), file, indent=1)
    found = {row.theirs: row.to_theirs(loaded.values[f"backbone.{row.ours}"]) for row in _rows(loaded.config)}
    with h5py.File(os.path.join(path, "weights.hdf5"), "w") as file:
        for name, value in join(found).items():
            file.create_dataset(name, data=value)


def _only(folder: str, ending: str) -> str:
    found = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{ending}")))
    if len(found) != 1:
        names = ", ".join(map(os.path.basename, found)) or "none"
        raise CheckpointError(f"{folder}: expected one file *{ending}, found {names}.")
    return found[0]


def _config(stored: Mapping[str, Any], source: str) -> ElmoConfig:
    """Returns our configuration from the options."""
    try:
        lstm, words = stored["lstm"], stored["char_cnn"]
        widths, filters = zip(*words["filters"], strict=True)
        numbers = {
            "vocabulary_size": len(SPECIAL_TOKENS), "hidden_dim": 2 * lstm["projection_dim"], "num_layers": lstm["n_layers"],
            "cell_dim": lstm["dim"], "character_dim": words["embedding"]["dim"], "filter_widths": list(widths),
            "num_filters": list(filters), "num_highway": words.get("n_highway") or 0, "activation": words["activation"],
            "cell_clip": lstm.get("cell_clip") or UNLIMITED, "output_clip": lstm.get("proj_clip") or UNLIMITED,
            "has_skips": bool(lstm.get("use_skip_connections")), "dropout": stored.get("dropout", 0.1),
        }  # fmt: skip
        width = words.get("max_characters_per_token", WIDTH)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: not the options of a bilm-tf network with characters ({error!r}).") from None
    if width != WIDTH:
        raise CheckpointError(f"{source}: `max_characters_per_token` must be {WIDTH}. Found: {width!r:.40}.")
    return ElmoConfig.from_json(numbers, source)


def _options(config: ElmoConfig) -> dict[str, Any]:
    """Returns the inverse of `_config`."""
    clips = [None if clip == UNLIMITED else clip for clip in (config.cell_clip, config.output_clip)]
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": config.activation, "embedding": {"dim": config.character_dim}, "n_highway": config.num_highway or None,
            "filters": [list(pair) for pair in zip(config.filter_widths, config.num_filters, strict=True)],
            "max_characters_per_token": WIDTH, "n_characters": NUM_CHARACTERS,
        },
        "dropout": config.dropout,
        "lstm": {
            "cell_clip": clips[0], "dim": config.cell_dim, "n_layers": config.num_layers, "proj_clip": clips[1],
            "projection_dim": config.output_dim, "use_skip_connections": config.has_skips,
        },
    }  # fmt: skip


def _rows(config: ElmoConfig) -> Iterator[Row]:
    """Yields every tensor of theirs, the two halves of the gates' kernel as two."""
    total, out, cell = sum(config.num_filters), config.output_dim, config.cell_dim
    no_word = np.zeros((1, config.character_dim), np.float32)
    yield Row(
        "embedding.embedding.embeddings", "char_embed", (NUM_CHARACTERS - 1, config.character_dim),
        lambda value: np.concatenate([no_word, value]), lambda value: value[1:],
    )  # fmt: skip
    for i, (width, filters) in enumerate(zip(config.filter_widths, config.num_filters, strict=True)):
        shape = (1, width, config.character_dim, filters)
        kernel = f"embedding.convolutions.{i}.kernel"
        yield Row(kernel, f"CNN/W_cnn_{i}", shape, lambda value: value[0], lambda value: value[None])
        yield Row(f"embedding.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (filters,))
    for i, (ours, theirs) in itertools.product(
        range(config.num_highway), (("gate", "carry"), ("transform", "transform"))
    ):
        yield Row(f"embedding.highways.{i}.{ours}.kernel", f"CNN_high_{i}/W_{theirs}", (total, total))
        yield Row(f"embedding.highways.{i}.{ours}.bias", f"CNN_high_{i}/b_{theirs}", (total,))
    yield Row("embedding.projection.kernel", "CNN_proj/W_proj", (total, out))
    yield Row("embedding.projection.bias", "CNN_proj/b_proj", (out,))
    # bilm-tf adds 1 to the bias of the forget gate whenever it runs.
    forget = np.repeat(np.array([0, 1, 0, 0], np.float32), cell)
    for number, layer in itertools.product(range(2), range(config.num_layers)):
        ours = f"{DIRECTIONS[number]}.recurrent_layers.{layer}"
        theirs = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        # Of the input, and behind it of the last output.
        for half, name in enumerate(("gates.kernel", "steps.cell.recurrent.kernel")):
            yield Row(f"{ours}.{name}", f"{theirs}/W_0[:{half}/2]", (out, 4 * cell), _reorder, _reorder)
        yield Row(
            f"{ours}.gates.bias", f"{theirs}/B", (4 * cell,),
            lambda value: _reorder(value) + forget, lambda value: _reorder(value - forget),
        )  # fmt: skip
        yield Row(f"{ours}.steps.cell.projection.kernel", f"{theirs}/W_P_0", (cell, out))


def _reorder(gates: np.ndarray) -> np.ndarray:
    parts = np.split(gates, 4, axis=-1)
    return np.concatenate([parts[i] for i in ORDER], axis=-1)
