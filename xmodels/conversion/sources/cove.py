"""The encoder of the released CoVe: a folder with PyTorch's weights of its LSTM and the GloVe vectors that it reads."""

import glob
import os
from collections.abc import Iterator, Mapping

import numpy as np
from safetensors.numpy import save_file

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from xmodels.conversion import pickles
from xmodels.conversion.vectors import glove
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.cove import CoveConfig
from xmodels.models.folder import read_weights, report_misfits

MODEL = "cove"
TITLE = "the wmtlstm-*.pth of the released CoVe, and GloVe's text beside it"
WEIGHTS, VECTORS = (".safetensors", ".pth"), "*.txt"  # in the order in which they are preferred
OWN = "mt-lstm.safetensors", "glove.txt"  # that we write
DIRECTIONS = {"ahead": "", "behind": "_reverse"}
LACKS = tuple(range(len(SPECIAL_TOKENS)))
NUM_GATES = 4  # input, forget, candidate, output, in both


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a folder, or names the file that is missing or damaged. Both biases of PyTorch become one.

    Raises:
        CheckpointError: a file is missing, a pickle is not allowed, or a tensor is missing, unexpected or of another shape.
    """
    file, vectors = _weights_file(path), _only(path, VECTORS)
    found = read_weights(file) if file.endswith(WEIGHTS[0]) else _unpickle(file, allow_pickle)
    words, table = glove.read(vectors)
    if odd := next((w for w in words if w in SPECIAL_TOKENS or any(c in w for c in "\n\r")), None):
        raise CheckpointError(f"{vectors}: the word {odd!r} cannot stand in a vocabulary of ours.")
    if len(set(words)) < len(words):
        raise CheckpointError(f"{vectors}: has a word twice.")
    config = _config(found, len(words) + len(SPECIAL_TOKENS), table.shape[1], file)
    wanted = {name: shape for _, name, shape in _rows(config)}
    report_misfits(wanted, {name: value.shape for name, value in found.items()}, file)
    zeros = np.zeros((len(SPECIAL_TOKENS), table.shape[1]), np.float32)  # as words that are not known
    values = {"backbone.embedding.embeddings": np.concatenate([zeros, table])}
    for ours, theirs, _ in _rows(config):
        value = found[theirs].astype(np.float32).T
        name = f"backbone.{ours}"
        values[name] = values[name] + value if name in values else np.ascontiguousarray(value)
    tokens = [*SPECIAL_TOKENS, *words]
    files = {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode("utf-8", "replace")}
    settings = {"tokenizer": "words", "do_lower_case": False, "segmenter": "presegmented"}
    return Checkpoint(MODEL, config, values, TokenizerFiles(files, settings, path), system=MODEL)


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`; of PyTorch's two biases the second is zeros, and vectors of special tokens are left out.

    Raises:
        CheckpointError: the network has no vocabulary.
    """
    if loaded.tokenizer is None:
        raise CheckpointError(f"{path}: the vectors of words have names, and the network has no vocabulary.")
    vocabulary, found = loaded.tokenizer.open().vocabulary, {}
    for ours, theirs, shape in _rows(loaded.config):
        is_second = theirs.startswith("bias_hh")
        found[theirs] = (
            np.zeros(shape, np.float32) if is_second else np.ascontiguousarray(loaded.values[f"backbone.{ours}"].T)
        )
    save_file(found, os.path.join(path, OWN[0]))
    kept = [i for i in range(len(vocabulary)) if i not in set(vocabulary.special_ids)]
    table = loaded.values["backbone.embedding.embeddings"]
    glove.write(os.path.join(path, OWN[1]), [vocabulary.tokens[i] for i in kept], table[kept])


def _weights_file(path: str) -> str:
    for ending in WEIGHTS:
        if glob.glob(os.path.join(glob.escape(path), f"*{ending}")):
            return _only(path, f"*{ending}")
    raise CheckpointError(f"{path}: expected one file *.safetensors or *.pth with the weights of the LSTM, found none.")


def _only(path: str, pattern: str) -> str:
    found = sorted(glob.glob(os.path.join(glob.escape(path), pattern)))
    if len(found) != 1:
        names = ", ".join(map(os.path.basename, found)) or "none"
        raise CheckpointError(f"{path}: expected one file {pattern}, found {names}.")
    return found[0]


def _unpickle(path: str, allow_pickle: bool) -> Mapping[str, np.ndarray]:
    pickles.check_allowed(path, allow_pickle)
    found = pickles.unpickle(path)
    if not isinstance(found, dict) or not all(isinstance(value, np.ndarray) for value in found.values()):
        raise CheckpointError(f"{path}: expected a dictionary of tensors.")
    return found


def _config(found: Mapping[str, np.ndarray], num_tokens: int, width: int, source: str) -> CoveConfig:
    """Returns the sizes that the shapes of the tensors say."""
    recurrent = found.get("weight_hh_l0")
    if recurrent is None or recurrent.ndim != 2:
        raise CheckpointError(f"{source}: not the weights of an LSTM: it has no matrix weight_hh_l0.")
    layers = sum(name.startswith("weight_hh_l") and not name.endswith("_reverse") for name in found)
    numbers = {
        "vocabulary_size": num_tokens, "hidden_dim": width + 2 * recurrent.shape[1], "embedding_dim": width, "num_layers": layers,
    }  # fmt: skip
    return CoveConfig.from_json(numbers, source)


def _rows(config: CoveConfig) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yields our name without `backbone.`, their name and their shape of every tensor; two biases of theirs have one name of ours."""
    units, width = config.encoder_dim // 2, config.embedding_dim
    for layer in range(config.num_layers):
        for ours, ending in DIRECTIONS.items():
            name, theirs = f"recurrent_layers.{layer}.{ours}", f"l{layer}{ending}"
            yield f"{name}.gates.kernel", f"weight_ih_{theirs}", (NUM_GATES * units, width)
            yield f"{name}.steps.cell.recurrent.kernel", f"weight_hh_{theirs}", (NUM_GATES * units, units)
            yield f"{name}.gates.bias", f"bias_ih_{theirs}", (NUM_GATES * units,)
            yield f"{name}.gates.bias", f"bias_hh_{theirs}", (NUM_GATES * units,)
        width = config.encoder_dim
