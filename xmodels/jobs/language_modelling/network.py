"""The causal network of a run, of a model folder, or of somebody else's checkpoint, for scoring."""

import os
from collections.abc import Callable, Sequence

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.conversion import convert
from xmodels.conversion.formats import Loaded, table_for
from xmodels.export.causal import names_next_tokens, objective_of
from xmodels.export.scorer import Scorer
from xmodels.models import folder
from xmodels.models.backbone import Backbone, ModelConfig

RUN_CONFIG, RUN_MANIFEST = "config.json", "data_manifest.json"


def is_causal(model_dir: str) -> bool:
    """Whether a name means a network that names the next token; False where that cannot be told."""
    try:
        if model_dir.startswith("hf:"):
            stored = folder.read_json(os.path.join(model_dir.removeprefix("hf:"), folder.CONFIG))
            network = folder.model_class(table_for(str(stored.get("model_type")))[1])
        else:
            inner = os.path.join(model_dir, convert.RUN_MODEL)
            network = folder.read_config(inner if os.path.isdir(inner) else model_dir)[1]
    except CheckpointError:
        return False  # whoever opens it says what is wrong
    return names_next_tokens(network)


def load_scorer(
    model_dir: str, fit: Callable[[type[Backbone], ModelConfig], ModelConfig] = lambda network, config: config,
    unlikely: Callable[[Tokenizer], Sequence[int]] = lambda tokenizer: (),
) -> Scorer:  # fmt: skip
    """Reads a network.

    Args:
        model_dir: a run folder, a model folder, or hf:FOLDER.
        fit: changes fields of the network's configuration that no weight depends on.
        unlikely: (tokenizer) -> ids, see `Scorer`.

    Raises:
        CheckpointError: the folder is not whole, its network does not name the next token, or its vocabulary is missing or
            of another size.
    """
    loaded = convert.load(model_dir)
    network = folder.model_class(loaded.model)
    if not names_next_tokens(network):
        raise CheckpointError(
            f"{model_dir}: a {network.__name__} does not name the token that follows, so text has no likelihood under it. Train "
            "a causal system, such as --system=gpt2."
        )
    tokenizer = _tokenizer(model_dir, loaded)
    _check_finite(loaded, model_dir)
    backbone = network(fit(network, loaded.config)).initialize()
    folder.assign("backbone", backbone, loaded.values, model_dir)
    return Scorer(backbone, objective_of(backbone, loaded.values, model_dir), tokenizer, unlikely(tokenizer))


def _tokenizer(model_dir: str, loaded: Loaded) -> Tokenizer:
    if loaded.tokenizer is None:
        raise CheckpointError(
            f"{model_dir}: holds no vocabulary, and text cannot be read without. Put the files of its tokenizer there, such "
            "as vocab.json and merges.txt."
        )
    tokenizer = loaded.tokenizer.open()
    if len(tokenizer.vocabulary) != loaded.config.vocabulary_size:
        raise CheckpointError(
            f"{model_dir}: the vocabulary holds {len(tokenizer.vocabulary)} tokens, but the network has "
            f"{loaded.config.vocabulary_size}; they are not of the same model."
        )
    return tokenizer


def _check_finite(loaded: Loaded, source: str) -> None:
    broken = [name for name, value in loaded.values.items() if not np.isfinite(value).all()]
    if broken:
        raise CheckpointError(
            f"{source}: {len(broken)} of its weights hold NaN or infinity, such as {broken[0]}, so nothing has a likelihood under "
            "it. Take an earlier state of the run."
        )


def window_length(model_dir: str, config: ModelConfig, asked: int | None) -> int:
    """How many tokens a network shall read at once: what is asked for, what it was trained on, or all that it can."""
    trained = trained_length(model_dir) or config.max_sequence_length
    trained += getattr(config, "memory_length", 0)  # of what a memory adds, everything may stand in one segment as well
    if asked and asked > trained:
        print(
            f"Note: --max_seq_length={asked}, but the run was trained on {trained} tokens; it knows nothing of places behind."
        )
    return asked or min(trained, config.max_sequence_length)


def trained_length(model_dir: str) -> int | None:
    """The length of the sequences that a run was trained on; None where nothing says it."""
    path = os.path.join(model_dir, RUN_CONFIG)
    stored = folder.read_json(path).get("settings") if os.path.isfile(path) else None
    length = stored.get("max_seq_length") if isinstance(stored, dict) else None
    return length if type(length) is int else None


def records_settings(model_dir: str) -> dict | None:
    """How the records of a run were made; None where nothing says it."""
    path = os.path.join(model_dir, RUN_MANIFEST)
    settings = folder.read_json(path).get("settings") if os.path.isfile(path) else None
    return settings if isinstance(settings, dict) else None
