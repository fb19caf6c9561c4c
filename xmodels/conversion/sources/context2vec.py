"""Networks of the released context2vec: a folder with a `*.params`, which names Chainer's npz and the text file of target vectors."""

import glob
import os
from collections.abc import Iterator

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import CLS, SEP, SPECIAL_TOKENS, UNKNOWN
from xmodels.conversion.npz import read_npz
from xmodels.conversion.rows import Row
from xmodels.conversion.vectors import word2vec
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.context2vec import DEEP, SHALLOW, Context2VecConfig
from xmodels.models.folder import report_misfits

MODEL = "context2vec"
TITLE = "the .params, npz and .targets of the released context2vec"
OWN = {"<UNK>": UNKNOWN, "<BOS>": CLS, "<EOS>": SEP}  # the first three words of theirs
LACKS = tuple(i for i, token in enumerate(SPECIAL_TOKENS) if token not in OWN.values())  # padding and masks
FILE = "context2vec.model"  # that we write
WHOLE = "hidden_dim", "embedding_dim", "recurrent_dim"
# A cell of Chainer holds, unit by unit, candidate, input, forget, output; ours, gate by gate, input, forget, candidate, output.
ORDER, BACK = [1, 2, 0, 3], [2, 0, 1, 3]


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a folder, or names the file that is missing or damaged.

    Raises:
        CheckpointError: a file is missing, a value cannot be expressed, or a tensor is missing, unexpected or of another shape.
    """
    source = _only(path)
    stored = _settings(source)
    words, _ = word2vec.read_text(_beside(source, stored, "words_file"))
    config = _config(stored, len(words) + len(SPECIAL_TOKENS) - len(OWN), source)
    file = _beside(source, stored, "model_file")
    found = read_npz(file)
    report_misfits(
        {row.theirs: row.shape for row in _rows(config)}, {name: value.shape for name, value in found.items()}, file
    )
    tokens = _tokens(words, source)
    order = np.array([{ours: i for i, ours in enumerate(tokens)}[OWN.get(word, word)] for word in words])
    values = {f"backbone.{row.ours}": row.to_ours(found[row.theirs].astype(np.float32)) for row in _rows(config)}
    for name in TABLES:
        table = np.zeros((len(tokens), values[f"backbone.{name}"].shape[1]), np.float32)
        table[order] = values[f"backbone.{name}"]
        values[f"backbone.{name}"] = table
    files = {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode("utf-8", "replace")}
    settings = {"tokenizer": "words", "do_lower_case": True, "segmenter": "presegmented"}
    return Checkpoint(MODEL, config, values, TokenizerFiles(files, settings, path), system=MODEL)


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`. The rows of padding and masks, which no text has, are left out.

    Raises:
        CheckpointError: the network has no vocabulary, or sizes that the format does not have.
    """
    config, tokens = loaded.config, loaded.tokenizer and loaded.tokenizer.open().vocabulary.tokens
    if not tokens:
        raise CheckpointError(f"{path}: the released format names the words, and the network has no vocabulary.")
    unit = config.embedding_dim
    if config.num_layers != 1 or {config.hidden_dim, config.recurrent_dim} != {2 * unit}:
        raise CheckpointError(
            f"{path}: the released format has one LSTM of twice the width of words, as is the vector. Found: "
            f"num_layers={config.num_layers}, {', '.join(f'{name}={getattr(config, name)}' for name in WHOLE)}."
        )
    names = {ours: theirs for theirs, ours in OWN.items()}
    place = {token: i for i, token in enumerate(tokens)}
    kept = [*OWN.values(), *(token for token in tokens if token not in SPECIAL_TOKENS)]
    order = np.array([place[token] for token in kept])
    found = {}
    for row in _rows(config):
        value = loaded.values[f"backbone.{row.ours}"]
        found[row.theirs] = row.to_theirs(value[order] if row.ours in TABLES else value)
    with open(os.path.join(path, FILE), "wb") as file:
        np.savez(file, **found)
    words = [names.get(token, token) for token in kept]
    word2vec.write_text(os.path.join(path, f"{FILE}.targets"), words, found["loss_func/W"])
    settings = {
        "model_file": FILE, "words_file": f"{FILE}.targets", "unit": unit, "deep": "yes" if config.head == DEEP else "no",
        "drop_ratio": config.dropout,
    }  # fmt: skip
    with open(os.path.join(path, f"{FILE}.params"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}\t{value}\n" for name, value in settings.items())


def _only(path: str) -> str:
    if os.path.isfile(path):
        return path
    found = sorted(glob.glob(os.path.join(glob.escape(path), "*.params")))
    if len(found) != 1:
        raise CheckpointError(
            f"{path}: expected one file *.params, found {', '.join(map(os.path.basename, found)) or 'none'}."
        )
    return found[0]


def _settings(source: str) -> dict[str, str]:
    with open(source, encoding="utf-8", errors="replace") as file:
        parts = [line.split() for line in file if line.strip() and not line.startswith("#")]
    if bad := next((each for each in parts if len(each) != 2), None):
        raise CheckpointError(f"{source}: expected a name and a value in each line. Found: {' '.join(bad)!r:.60}.")
    return dict(parts)


def _beside(source: str, stored: dict[str, str], name: str) -> str:
    """Returns the path of a file that the settings name; files lie in the same folder."""
    file = stored.get(name, "")
    path = os.path.join(os.path.dirname(source), file)
    if not file or os.path.basename(file) != file or not os.path.isfile(path):
        raise CheckpointError(f"{source}: `{name}` must name a file of the same folder. Found: {file!r:.80}.")
    return path


def _config(stored: dict[str, str], num_tokens: int, source: str) -> Context2VecConfig:
    kind, deep = stored.get("model_type", "lstm_context"), stored.get("deep")
    if kind != "lstm_context" or deep not in ("yes", "no"):
        raise CheckpointError(
            f"{source}: expected `model_type` lstm_context and `deep` yes or no. Found: {kind!r:.40} and {deep!r:.40}."
        )
    try:
        unit, rate = int(stored["unit"]), float(stored["drop_ratio"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{source}: `unit` and `drop_ratio` must be numbers ({error!r:.80}).") from None
    numbers = {
        "vocabulary_size": num_tokens, "hidden_dim": 2 * unit, "embedding_dim": unit, "recurrent_dim": 2 * unit,
        "head": DEEP if deep == "yes" else SHALLOW, "dropout": rate,
    }  # fmt: skip
    return Context2VecConfig.from_json(numbers, source)


def _tokens(words: list[str], source: str) -> list[str]:
    """Returns the tokens of our vocabulary: ours first, then their words in order."""
    if tuple(words[: len(OWN)]) != tuple(OWN):
        raise CheckpointError(
            f"{source}: the target vectors must begin with {', '.join(OWN)}. Found: {', '.join(words[: len(OWN)])!r:.80}."
        )
    kept = words[len(OWN) :]
    if len(set(kept)) < len(kept) or {*SPECIAL_TOKENS, *OWN} & set(kept):
        raise CheckpointError(
            f"{source}: a word of the target vectors is there twice, or is called like a special token."
        )
    return [*SPECIAL_TOKENS, *kept]


TABLES = "ahead.words.embeddings", "back.words.embeddings", "targets.embeddings"


def _rows(config: Context2VecConfig) -> Iterator[Row]:
    """Yields every tensor of theirs. Tables have the rows of their words."""
    words, unit, cell = (
        config.vocabulary_size - len(SPECIAL_TOKENS) + len(OWN),
        config.embedding_dim,
        config.recurrent_dim,
    )
    tables = zip(TABLES, ("l2r_embed/W", "r2l_embed/W", "loss_func/W"), (unit, unit, config.hidden_dim), strict=True)
    for ours, theirs, width in tables:
        yield Row(ours, theirs, (words, width))
    for ours, theirs in (("ahead", "l2r_1"), ("back", "r2l_1")):
        layer = f"{ours}.recurrent_layers.0"
        yield Row(f"{layer}.gates.kernel", f"{theirs}/upward/W", (4 * cell, unit), _by_gates, _by_units)
        yield Row(f"{layer}.gates.bias", f"{theirs}/upward/b", (4 * cell,), _by_gates, _by_units)
        yield Row(f"{layer}.steps.cell.recurrent.kernel", f"{theirs}/lateral/W", (4 * cell, cell), _by_gates, _by_units)
    both = 2 * cell
    linear = {
        DEEP: (("expand", "l3", both, both), ("contract", "l4", config.hidden_dim, both)),
        SHALLOW: (
            ("before", "lp_l2r", config.hidden_dim // 2, cell),
            ("behind", "lp_r2l", config.hidden_dim // 2, cell),
        ),
    }[config.head]
    for ours, theirs, rows, columns in linear:
        yield Row(f"head.{ours}.kernel", f"{theirs}/W", (rows, columns), np.transpose, np.transpose)
        yield Row(f"head.{ours}.bias", f"{theirs}/b", (rows,))


def _by_gates(value: np.ndarray) -> np.ndarray:
    """Returns the rows (4 R, ...) of a cell gate by gate, transposed."""
    parts = value.reshape(-1, 4, *value.shape[1:])[:, ORDER]  # (R, 4, ...)
    return np.ascontiguousarray(np.moveaxis(parts, 1, 0).reshape(value.shape).T)


def _by_units(value: np.ndarray) -> np.ndarray:
    """Returns the inverse of `_by_gates`."""
    rows = value.T
    parts = np.moveaxis(rows.reshape(4, -1, *rows.shape[1:])[BACK], 0, 1)
    return np.ascontiguousarray(parts.reshape(rows.shape))
