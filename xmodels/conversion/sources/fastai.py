"""AWD-LSTMs of fastai (ULMFiT) and of salesforce/awd-lstm-lm: a file of tensors, and beside it `itos`, a list of words.

Published files are pickles of PyTorch (`.pth`, and the `.h5` of the first release), which are read where that is allowed explicitly;
safetensors and `.npz` with the same names of tensors need no permission. A network that was saved as a whole, as Salesforce's code
does, can only be read after `torch.save(model.state_dict(), …)`.
"""

import collections
import dataclasses
import glob
import json
import os
import pickle
import re
from collections.abc import Mapping, Sequence

import numpy as np
from safetensors.numpy import save_file

from data_pipelines import strict_json
from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, UNKNOWN
from xmodels.conversion.npz import read_npz
from xmodels.conversion.pickles import UNREADABLE, check_allowed, unpickle
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.awd_lstm import AwdLstmConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import read_weights, report_misfits

MODEL = "awd_lstm"
TITLE = "AWD-LSTMs of fastai (ULMFiT) and of Salesforce"
WEIGHTS, WORDS = "model.safetensors", "itos.json"
ENDINGS = ((".safetensors",), (".npz",), (".pth", ".pt", ".h5", ".bin"))  # in the order in which they are preferred
TABLE, BIAS = "backbone.embedding.embeddings", "objective.tied_lm.bias"
# How they spell the roles of tokens, in fastai's later and first release, and at Salesforce. A text begins with the mark of its
# beginning, or ends with that of its end; ours has one token between texts.
SPELLINGS = {UNKNOWN: ("xxunk", "_unk_", "<unk>"), PAD: ("xxpad", "_pad_", "<pad>"), SEP: ("xxbos", "xbos", "<eos>")}
NEW = SEP, CLS, MASK  # what theirs lack: rows that begin as the mean of all others
# fastai's for a language model that learns a text; files do not say them.
DROPOUT = {
    "dropout": 0.1,
    "hidden_dropout": 0.15,
    "input_dropout": 0.25,
    "embedding_dropout": 0.02,
    "weight_dropout": 0.2,
}
LAYER = re.compile(r"rnns\.(?P<layer>\d+)\.(?:module\.)?(?P<weight>(?:weight|bias)_(?:ih|hh)_l0(?:_raw)?)")
COPIES = re.compile(r"encoder_with_dropout\.embed\.weight|encoder_dp\.emb\.weight|decoder\.weight")  # of the table


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a file of tensors, or a folder that holds one.

    Raises:
        CheckpointError: a file is missing or damaged, a pickle is not allowed, or a tensor is missing, unexpected or of another shape.
    """
    file = _file_in(path)
    found = {_short(name): value for name, value in _tensors(file, allow_pickle).items()}
    config = _config(found, file)
    values = _values(found, config, file)
    words, source = _words(os.path.dirname(file), allow_pickle)
    if words is None:
        warning = f"There is no {WORDS} beside {file}; put a vocab.txt beside the converted checkpoint."
        return Checkpoint(MODEL, config, values, heads=frozenset({"tied_lm"}), warnings=(warning,), system=MODEL)
    if len(words) != config.vocabulary_size:
        raise CheckpointError(
            f"{source}: {len(words):,} words, and the table of {file} has {config.vocabulary_size:,} rows."
        )
    tokens = _our_tokens(words)
    new = len(tokens) - len(words)
    values = {name: _with_rows(value, new) if name in (TABLE, BIAS) else value for name, value in values.items()}
    config = dataclasses.replace(config, vocabulary_size=len(tokens))
    files = {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode()}
    tokenizer = TokenizerFiles(files, {"tokenizer": "words", "do_lower_case": True}, source)
    return Checkpoint(MODEL, config, values, tokenizer, frozenset({"tied_lm"}), system=MODEL)


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path` with tensors by fastai's names, and the words as `itos.json`."""
    found = {"0.encoder.weight": loaded.values[TABLE], "0.encoder_dp.emb.weight": loaded.values[TABLE]}
    for i, width in enumerate(loaded.config.widths):
        ours, theirs = f"backbone.recurrent_layers.{i}.", f"0.rnns.{i}."
        recurrent = loaded.values[f"{ours}steps.cell.recurrent.kernel"].T
        found |= {
            f"{theirs}weight_hh_l0_raw": recurrent, f"{theirs}module.weight_hh_l0": recurrent,
            f"{theirs}module.weight_ih_l0": loaded.values[f"{ours}gates.kernel"].T,
            f"{theirs}module.bias_ih_l0": loaded.values[f"{ours}gates.bias"],
            f"{theirs}module.bias_hh_l0": np.zeros(4 * width, np.float32),
        }  # fmt: skip
    if BIAS in loaded.values:
        found |= {"1.decoder.weight": loaded.values[TABLE], "1.decoder.bias": loaded.values[BIAS]}
    found = {name: np.ascontiguousarray(value, np.float32) for name, value in found.items()}
    save_file(found, os.path.join(path, WEIGHTS))
    if loaded.tokenizer is not None:
        theirs = {role: spelled[0] for role, spelled in SPELLINGS.items()}
        words = [theirs.get(token, token) for token in loaded.tokenizer.open().vocabulary.tokens]
        with open(os.path.join(path, WORDS), "w", encoding="utf-8") as file:
            json.dump(words, file, ensure_ascii=False, indent=0)


def _file_in(path: str) -> str:
    if os.path.isfile(path):
        return path
    known = ", ".join(ending for endings in ENDINGS for ending in endings)
    for endings in ENDINGS:
        found = sorted(p for p in glob.glob(os.path.join(glob.escape(path), "*")) if p.endswith(endings))
        if len(found) > 1:
            raise CheckpointError(
                f"{path}: several files of tensors, {', '.join(map(os.path.basename, found))}. Name one."
            )
        if found:
            return found[0]
    raise CheckpointError(f"{path}: expected a file of tensors that ends in one of {known}.")


def _tensors(file: str, allow_pickle: bool) -> dict[str, np.ndarray]:
    if file.endswith(".safetensors"):
        return read_weights(file)
    if file.endswith(".npz"):
        return read_npz(file)
    check_allowed(file, allow_pickle)
    stored = unpickle(file, [collections.OrderedDict])
    stored = stored["model"] if isinstance(stored, dict) and isinstance(stored.get("model"), dict) else stored
    if not isinstance(stored, dict) or not all(isinstance(value, np.ndarray) for value in stored.values()):
        raise CheckpointError(f"{file}: expected a dictionary of tensors, as `model.state_dict()` is.")
    return stored


def _short(name: str) -> str:
    """Returns a name without the place in fastai's list of two modules, encoder and decoder."""
    return re.sub(r"^(module\.)?[01]\.", "", str(name))


def _config(found: Mapping[str, np.ndarray], file: str) -> AwdLstmConfig:
    table = found.get("encoder.weight")
    layers = sorted({int(match["layer"]) for match in map(LAYER.fullmatch, found) if match})
    if table is None or table.ndim != 2 or layers != list(range(len(layers))) or not layers:
        raise CheckpointError(
            f"{file}: expected the tensors of an AWD-LSTM, encoder.weight and rnns.0.weight_hh_l0. Found "
            f"{', '.join(sorted(found)[:6])}."
        )
    first = next(
        (v for n, v in found.items() if (m := LAYER.fullmatch(n)) and m["layer"] == "0" and "hh" in n and v.ndim == 2),
        None,
    )
    if first is None:
        raise CheckpointError(f"{file}: the layer 0 has no weight_hh_l0 of two axes.")
    numbers = {
        "vocabulary_size": len(table), "hidden_dim": table.shape[1], "num_layers": len(layers), "recurrent_dim": first.shape[1],
        **DROPOUT,
    }  # fmt: skip
    return AwdLstmConfig.from_json(numbers, file)


def _values(found: Mapping[str, np.ndarray], config: AwdLstmConfig, file: str) -> dict[str, np.ndarray]:
    """Returns our weights. Of weights that are dropped, a file has the raw ones and a copy, which does not count.

    Raises:
        CheckpointError: a tensor is missing, unexpected or of another shape, or the output matrix is not the table.
    """
    table = found["encoder.weight"]
    wanted, there = {"encoder.weight": table.shape}, {"encoder.weight": table}
    for name, value in found.items():
        if COPIES.fullmatch(name):
            if not np.array_equal(value, table):
                raise CheckpointError(
                    f"{file}: {name} differs from encoder.weight; our network has one tensor for both."
                )
        elif match := LAYER.fullmatch(name):
            plain = f"rnns.{match['layer']}.{match['weight'].removesuffix('_raw')}"
            if match["weight"].endswith("_raw") or plain not in there:
                there[plain] = value
        elif name != "encoder.weight":
            there[name] = value
    sizes = [config.hidden_dim, *config.widths]
    for i, (inner, width) in enumerate(zip(sizes, config.widths, strict=False)):
        wanted |= {f"rnns.{i}.weight_ih_l0": (4 * width, inner), f"rnns.{i}.weight_hh_l0": (4 * width, width)}
        wanted |= dict.fromkeys((f"rnns.{i}.bias_ih_l0", f"rnns.{i}.bias_hh_l0"), (4 * width,))
    there.setdefault("decoder.bias", np.zeros(len(table), np.float32))  # which the first release lacks
    wanted["decoder.bias"] = (len(table),)
    report_misfits(wanted, {name: value.shape for name, value in there.items()}, file)
    there = {name: value.astype(np.float32) for name, value in there.items()}
    values = {TABLE: there["encoder.weight"], BIAS: there["decoder.bias"]}
    for i in range(config.num_layers):
        ours, theirs = f"backbone.recurrent_layers.{i}.", f"rnns.{i}."
        values[f"{ours}gates.kernel"] = there[f"{theirs}weight_ih_l0"].T.copy()
        values[f"{ours}gates.bias"] = there[f"{theirs}bias_ih_l0"] + there[f"{theirs}bias_hh_l0"]
        values[f"{ours}steps.cell.recurrent.kernel"] = there[f"{theirs}weight_hh_l0"].T.copy()
    return values


def _words(folder: str, allow_pickle: bool) -> tuple[Sequence[str] | None, str]:
    """Returns the words in the order of their ids, and the file; None where there is none."""
    found = sorted(glob.glob(os.path.join(glob.escape(folder or "."), "*itos*")))
    path = next((p for ending in (".json", ".txt", ".pkl") for p in found if p.endswith(ending)), None)
    if path is None:
        return None, folder
    if path.endswith(".pkl"):
        check_allowed(path, allow_pickle)
        words = _unpickle_words(path)
    else:
        try:
            words = strict_json.read(path) if path.endswith(".json") else _lines(path)
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}).") from None
        except (ValueError, OSError) as error:
            raise CheckpointError(f"{path}: not a list of words in JSON ({error}).") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise CheckpointError(f"{path}: expected a list of words.")
    return words, path


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


class _WordsUnpickler(pickle.Unpickler):
    """Reads lists and strings; all else is an error."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it names {module}.{name}, and words need no class")


def _unpickle_words(path: str):
    try:
        with open(path, "rb") as file:
            return _WordsUnpickler(file).load()
    except UNREADABLE as error:
        raise CheckpointError(f"{path}: not a readable pickle of words ({error}).") from None


def _our_tokens(words: Sequence[str]) -> list[str]:
    """Returns the tokens of our vocabulary: roles as ours are spelled, those that are missing at the end, and no token twice.

    A vocabulary of ours holds a token a line, and words without blanks; tokens that cannot stand there, and repeated ones such as the
    fillers of fastai, get names that no text holds.
    """
    spelled = {}
    for role, spellings in SPELLINGS.items():
        word = next((each for each in (role, *spellings) if each in words), None)
        spelled |= {} if word is None else {word: role}
    tokens: dict[str, None] = {}
    for index, word in enumerate(words):
        token = spelled.get(word, word)
        if not token or token.split() != [token] or token in tokens:
            token = f"[unused{index}]"
        tokens[token] = None
    return [*tokens, *(role for role in (PAD, UNKNOWN, *NEW) if role not in tokens)]


def _with_rows(value: np.ndarray, count: int) -> np.ndarray:
    """Returns a table, or a bias, with rows that are the mean of all others (Howard and Ruder's code)."""
    return np.concatenate([value, np.repeat(value.mean(axis=0, keepdims=True), count, axis=0)])
