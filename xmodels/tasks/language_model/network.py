"""The network of a causal system, for scoring: of a run, of a model folder, or of somebody else's checkpoint."""

import os
from collections.abc import Callable, Sequence

from data_pipelines.errors import CheckpointError
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.interfaces.loaded import Identity
from xmodels.models import folder
from xmodels.models.config import LONGEST_ROW, TokenConfig
from xmodels.tasks.base.source import Source
from xmodels.tasks.language_model.answer import TASK
from xmodels.tasks.language_model.scorer import Scorer

RUN_CONFIG, RUN_MANIFEST = "config.json", "data_manifest.json"


def load_scorer(
    source: Source, change: Callable[[Identity, TokenConfig], TokenConfig] = lambda found, config: config,
    unlikely: Callable[[Tokenizer], Sequence[int]] = lambda tokenizer: (),
) -> Scorer:  # fmt: skip
    """Reads a network.

    Args:
        source: of a run folder, a model folder, or hf:FOLDER.
        change: changes fields of the network's configuration that no weight depends on.
        unlikely: (tokenizer) -> ids, see `Scorer`.

    Raises:
        CheckpointError: the folder is not whole, its network does not name the next token, or its vocabulary is missing or
            of another size.
    """
    found = source.identify()
    if found.writing is None or found.writing.task != TASK:
        raise CheckpointError(
            f"{source.path}: a {found.network.__name__} does not name the token that follows, so text has no likelihood under it. "
            "Train a causal system, such as --system=gpt2."
        )
    loaded = source.load(change)
    return Scorer(loaded.backbone, loaded.objective(), loaded.tokenizer, unlikely(loaded.tokenizer))


def window_length(model_dir: str, backbone, asked: int | None) -> int:
    """Returns how many tokens a network shall read at once: what is asked for, what it was trained on, or all that it can.

    A recurrent network goes on with its state, so it was trained on texts of any length.
    """
    config = backbone.config
    if backbone.carries_memory and not config.states_carried:
        return asked or config.cut(LONGEST_ROW)
    trained = trained_length(model_dir) or config.cut(LONGEST_ROW)
    trained += config.states_carried  # everything that a memory adds may stand in one segment as well
    if asked and asked > trained:
        print(
            f"Note: --max_seq_length={asked}, but the run was trained on {trained} tokens; it knows nothing of places behind."
        )
    return asked or config.cut(trained)


def trained_length(model_dir: str) -> int | None:
    """Returns the length of the sequences that a run was trained on; None where nothing says it."""
    path = os.path.join(model_dir, RUN_CONFIG)
    stored = folder.read_json(path).get("settings") if os.path.isfile(path) else None
    length = stored.get("max_seq_length") if isinstance(stored, dict) else None
    return length if type(length) is int else None


def records_settings(model_dir: str) -> dict | None:
    """Returns how the records of a run were made; None where nothing says it."""
    path = os.path.join(model_dir, RUN_MANIFEST)
    settings = folder.read_json(path).get("settings") if os.path.isfile(path) else None
    return settings if isinstance(settings, dict) else None
