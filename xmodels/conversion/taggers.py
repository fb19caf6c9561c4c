"""Taggers whose head is more than a Dense layer and a softmax, for which other formats have no word."""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.models.checkpoint import Checkpoint

HEAD = "objective.tag."
PLAIN = (f"{HEAD}head.kernel", f"{HEAD}head.bias")
PARTS = {
    "crf": "--crf",
    "bilstm": "--bilstm_dim",
    "mix": "--combine_layers",
}  # weights of a part -> the flag that made them


def own_flags(values: Mapping[str, Any], settings: Mapping[str, Any], hidden_dim: int) -> list[str]:
    """Returns the flags of `finetune --task=tag` that gave the tagger among `values` more than a Dense layer on the last
    states; sorted."""
    flags = {PARTS.get(n.split(".")[2], n) for n in values if n.startswith(HEAD) and n not in PLAIN}
    kernel = values.get(PLAIN[0])
    if settings.get("feature_layers") or (kernel is not None and len(kernel) != hidden_dim and not flags):
        flags.add("--feature_layers")
    return sorted(flags)


def check_plain(loaded: Checkpoint, target: str) -> None:
    """Raises a CheckpointError where a format has no word for a tagger."""
    if "tag" in loaded.heads and (flags := own_flags(loaded.values, loaded.settings, loaded.config.hidden_dim)):
        raise CheckpointError(
            f"{target}: the head of a tagger is a Dense layer and a softmax in this format; it has no place for "
            f"{', '.join(flags)}, with which it has learnt. Fine-tune one without, or serve this one with `xmodels export_model`."
        )


def check_known(loaded: Checkpoint, target: str) -> None:
    """Raises a CheckpointError where a model folder of ours, which has no task.json, would not say what states a tagger reads."""
    if "tag" in loaded.heads and loaded.settings.get("feature_layers"):
        raise CheckpointError(
            f"{target}: a model folder does not say that a tagger reads --feature_layers="
            f"{','.join(map(str, loaded.settings['feature_layers']))}. Copy the folder of the run instead."
        )
