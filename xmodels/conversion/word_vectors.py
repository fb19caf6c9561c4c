"""Word vectors in and out, in the formats that the files of `xmodels/conversion/vectors` are named by, such as `word2vec:FILE`.

To add a format, add a file that defines `write(path, words, vectors)` and `read(path)`.
"""

import importlib
import os
import pkgutil
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from data_pipelines.errors import CheckpointError, UsageError
from xmodels.conversion import find, ours
from xmodels.conversion import vectors as formats
from xmodels.conversion.vectors.word2vec import read_binary, read_text, write_binary, write_text
from xmodels.models.backbone import Backbone
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import model_class

__all__ = ["is_named", "nearest", "names", "read", "read_binary", "read_text", "write", "write_binary", "write_text"]


def names() -> list[str]:
    """Returns the names of the formats, which are those of their files."""
    return sorted(module.name for module in pkgutil.iter_modules(formats.__path__))


def is_named(target: str) -> bool:
    """Returns whether a target is a file of word vectors, `FORMAT:FILE`."""
    return target.partition(":")[0] in names()


def read_of_flag(flag: str, name: str) -> tuple[list[str], np.ndarray]:
    """Returns what `read` does of the file that a flag names; errors name the flag too."""
    try:
        return read(name)
    except (UsageError, CheckpointError) as error:
        raise type(error)(f"--{flag}: {error}") from None


def read(name: str) -> tuple[list[str], np.ndarray]:
    """Returns the words and the vectors, float32 (V, D), of a file `FORMAT:FILE` or of a run of ours.

    Raises:
        UsageError: there is no such format.
        CheckpointError: names the file and the line that does not fit; or the network of the run has no vectors of single words.
    """
    if os.path.isdir(name):
        return _words_of(ours.read(name), name)
    kind, _, path = name.partition(":")
    if not is_named(name):
        raise UsageError(
            f"{name}: no folder of a run, and no format of word vectors. Known: {', '.join(f'{each}:FILE' for each in names())}."
        )
    return _module(kind).read(path)


def write(target: str, loaded: Checkpoint) -> int:
    """Writes the vectors of a checkpoint's words as `FORMAT:FILE`, but for the special tokens, which were not trained; returns how
    many.

    Raises:
        UsageError: the file exists.
        CheckpointError: the network has no vectors of single words, or the checkpoint no vocabulary.
    """
    kind, _, path = target.partition(":")
    if os.path.exists(path):
        raise UsageError(f"{target}: exists already. Nothing is overwritten; give another name.")
    module = _module(kind)
    if getattr(module, "writes_network", lambda path: False)(path):
        return module.write_network(path, loaded)
    words, vectors = _words_of(loaded, target)
    module.write(path, words, vectors)
    return len(words)


def _words_of(loaded: Checkpoint, source: str) -> tuple[list[str], np.ndarray]:
    """Returns the words of a checkpoint and their vectors, without the special tokens."""
    table = table_of(loaded)
    if table is None or loaded.tokenizer is None:
        raise CheckpointError(
            f"{source}: a {loaded.model} has no vectors of single words, or its folder no vocabulary. Give a run of a system such as "
            "--system=skip_gram."
        )
    vocabulary = loaded.tokenizer.open().vocabulary
    special = set(vocabulary.special_ids)
    kept = [i for i in range(len(vocabulary)) if i not in special]
    return [vocabulary.tokens[i] for i in kept], np.asarray(table)[kept]


def table_of(loaded: Checkpoint) -> np.ndarray | None:
    """Returns the vectors of all words of a vocabulary, (V, D); None where the network has none."""
    if loaded.tokenizer is not None and (source := _composer(loaded.model)) is not None:
        return source.vectors_of_words(loaded.config, loaded.values, loaded.tokenizer.open().vocabulary.tokens)
    return model_class(loaded.model).word_vectors(loaded.values)


def has_vectors(model: str) -> bool:
    """Returns whether a network, as its file is called, has vectors of single words."""
    is_own = model_class(model).word_vectors.__func__ is not Backbone.word_vectors.__func__
    return is_own or _composer(model) is not None


def _composer(model: str) -> ModuleType | None:
    """Returns what makes vectors of words from their parts; None where a network has them as they are."""
    source = find.load(model) if model in find.names() else None
    return source if hasattr(source, "vectors_of_words") else None


def _module(kind: str):
    return importlib.import_module(f"{formats.__name__}.{kind}")


def nearest(words: Sequence[str], vectors: np.ndarray, word: str, count: int = 10) -> list[tuple[str, float]]:
    """Returns the words whose vectors have the largest cosine with that of `word`, which is left out."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit[list(words).index(word)]
    order = [i for i in np.argsort(-cosines, kind="stable") if words[i] != word][:count]
    return [(words[i], float(cosines[i])) for i in order]
