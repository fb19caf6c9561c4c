"""A run, a model folder or somebody else's checkpoint, resolved once: its system, network, tokenizer, and how it reads and writes."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.records.manifest import MANIFEST
from data_pipelines.text import kinds
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.untokenized import NoTokenizer
from data_pipelines.text.wordpiece import MAX_WORD_CHARACTERS
from xmodels import systems
from xmodels.conversion import convert, names
from xmodels.interfaces.loaded import Identity, Loaded
from xmodels.interfaces.reading import reading_without_system
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig

RUN_STATES = "checkpoints"  # of a run
# A file that tells another kind of folder -> what that is.
OTHERS = {
    MANIFEST: "records, which --data_dir names",
    "1/saved_model.pb": "an export, which `xmodels serve` answers from",
}


def model_folder(source: str) -> str:
    """Returns where the network of a run lies; of a model folder the folder itself.

    Raises:
        CheckpointError: there is no such folder, or it is a run that is not finished.
    """
    inner = os.path.join(source, folder.BACKBONE_FOLDER)
    if os.path.isdir(inner):
        return inner
    names.check_folder(source)
    if os.path.isdir(os.path.join(source, RUN_STATES)):
        raise CheckpointError(
            f"{source}: this run is not finished, so nothing was handed over yet. Finish it with the same command, or take "
            f"its last state: xmodels average_checkpoints --model_dir={source} --last=1 --output_dir=NAME."
        )
    check_no_other(source)
    return source


def check_no_other(path: str) -> None:
    """Raises a CheckpointError where a folder is no run or model, but something else that is known."""
    for name, what in OTHERS.items():
        if os.path.isfile(os.path.join(path, name)) and not os.path.isfile(os.path.join(path, folder.CONFIG)):
            raise CheckpointError(f"{path}: holds {what}, and is no run.")


def identify(source: str) -> Identity:
    """Returns what a run folder, a model folder, `hf:FOLDER` or `tf1:PREFIX` holds; reads no weights.

    Raises:
        CheckpointError: it is none of these, or damaged.
    """
    if names.is_foreign(source):
        return _identity(source, source, None, convert.model_of(source))
    path = model_folder(source)
    config, network = folder.read_config(path)
    return _identity(source, path, folder.read_system(path), folder.name_of(network), folder.read_pooling(path))


def _identity(source: str, path: str, name: str | None, model: str, pooling: str | None = None) -> Identity:
    system = systems.of_model(name, model, source)
    if system is None:
        name, network, writing = None, folder.model_class(model), None
        reading = reading_without_system(network)
    else:
        name, network, writing = systems.name_of(system), folder.model_class(model), system.WRITING
        reading = system.READING
    return Identity(source, path, name, network, reading and reading.with_pooling(pooling), writing, pooling=pooling)


def load(source: str, change: Callable[[Identity, TokenConfig], TokenConfig] = lambda found, config: config) -> Loaded:
    """Reads what `identify` finds.

    Args:
        change: changes fields of the configuration that no weight depends on.

    Raises:
        CheckpointError: the files are damaged, or do not fit each other.
    """
    if names.is_foreign(source):
        return _load_foreign(source, change)
    found = identify(source)
    folder.check_unchanged(found.path)
    tokenizer = read_tokenizer(found.path)
    config, network = folder.read_config(found.path)
    check_vocabulary(found.path, tokenizer, config)
    weights = os.path.join(found.path, folder.WEIGHTS)
    values = folder.read_weights(weights)
    folder.check_finite(values, weights)
    folder.check_tables(config, values, found.path)
    backbone = folder.build_with(network, change(found, config), values, weights)
    found = _as_told(found, tokenizer, config)
    return Loaded(**vars(found), backbone=backbone, heads=_heads(values), tokenizer=tokenizer)


def in_memory(backbone: Backbone, tokenizer: Tokenizer, system: str) -> Loaded:
    """Returns a network that was built here, without heads, as of a system."""
    model = folder.name_of(type(backbone))
    found = systems.load(system)
    return Loaded(model, model, system, type(backbone), found.READING, found.WRITING, backbone, {}, tokenizer)


def _load_foreign(source: str, change) -> Loaded:
    checkpoint = convert.load(source)
    found = _identity(source, source, checkpoint.system, checkpoint.model)
    if checkpoint.tokenizer is None:
        raise CheckpointError(
            f"{source}: holds no vocabulary, and text cannot be read without. Put the files of its tokenizer there, such "
            "as vocab.json and merges.txt."
        )
    tokenizer = checkpoint.tokenizer.open()
    check_vocabulary(source, tokenizer, checkpoint.config)
    found = _as_told(found, tokenizer, checkpoint.config)
    if found.writing and checkpoint.decoder_ids:
        found = dataclasses.replace(found, writing=found.writing.as_told(checkpoint.decoder_ids, tokenizer.vocabulary))
    backbone = folder.build_with(found.network, change(found, checkpoint.config), checkpoint.values, source)
    return Loaded(**vars(found), backbone=backbone, heads=_heads(checkpoint.values), tokenizer=tokenizer)


def _as_told(found: Identity, tokenizer: Tokenizer, config: TokenConfig) -> Identity:
    """Returns the same with the special tokens around texts that its tokenizer says."""
    reading = found.reading and found.reading.with_frame_of(tokenizer, config)
    writing = found.writing and found.writing.with_frame_of(tokenizer)
    return dataclasses.replace(found, reading=reading, writing=writing)


def _heads(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value for name, value in values.items() if name.startswith("objective.")}


def check_vocabulary(source: str, tokenizer: Tokenizer, config: TokenConfig) -> None:
    """Raises a CheckpointError unless the vocabulary is as large as the table of the network."""
    if not config.holds(len(tokenizer.vocabulary)):
        raise CheckpointError(
            f"{source}: the vocabulary holds {len(tokenizer.vocabulary)} tokens, but the network has "
            f"{config.values().get('vocabulary_size', 0)} (`vocabulary_size` in {folder.CONFIG}); they are not of the same model."
        )


def read_tokenizer(path: str) -> Tokenizer:
    """Returns the tokenizer of a model folder, from its vocabulary files and tokenizer_config.json.

    Raises:
        CheckpointError: one of the two is missing or damaged.
    """
    source = os.path.join(path, folder.TOKENIZER)
    if os.path.isfile(source) and folder.read_json(source).get("tokenizer") == NoTokenizer.kind:
        return NoTokenizer()
    values = {"max_word_characters": MAX_WORD_CHARACTERS, **folder.read_json(source)}  # converted models lack it
    kind = values.get("tokenizer")
    if isinstance(kind, str) and kind in set(kinds.KINDS) - {"wordpiece"}:
        try:
            return kinds.read_tokenizer(path)
        except DataError as error:
            raise CheckpointError(f"{path}: not a whole model folder. {error}") from None
    lower, longest = values.get("do_lower_case"), values["max_word_characters"]
    if values.get("tokenizer") != "wordpiece" or type(lower) is not bool or type(longest) is not int or longest < 1:
        raise CheckpointError(
            f'{source}: expected "tokenizer": "wordpiece", `do_lower_case` true or false, and `max_word_characters` '
            f"a whole number above 0. Found: {values.get('tokenizer')!r:.40}, {lower!r:.40} and {longest!r:.40}."
        )
    try:
        settings = {name: value for name, value in kinds.check_values(values, source).items() if name != "tokenizer"}
        return kinds.make("wordpiece", os.path.join(path, folder.VOCABULARY), settings)
    except DataError as error:
        raise CheckpointError(f"{path}: not a whole model folder. {error}") from None
