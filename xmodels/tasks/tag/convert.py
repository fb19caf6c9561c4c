"""The head of a tagger in other formats, which have a Dense layer and a softmax only."""

from data_pipelines.errors import CheckpointError
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.published_head import TOKENS, PublishedHead, logits_of_tokens
from xmodels.tasks.tag.task import Tag

PREFIX = "objective.tag."
PLAIN = KERNEL, BIAS = (f"{PREFIX}head.kernel", f"{PREFIX}head.bias")
# Weights of a part -> the flag that made them.
FLAGS = {"crf": "--crf", "bilstm": "--bilstm_dim", "mix": "--combine_layers"}


def own_flags(loaded: Checkpoint) -> list[str]:
    """Returns the flags of `finetune --task=tag` that gave a tagger more than a Dense layer on the last states; sorted."""
    parts = [name for name in loaded.values if name.startswith(PREFIX) and name not in PLAIN]
    flags = {FLAGS.get(name.split(".")[2], name) for name in parts}
    kernel = loaded.values.get(KERNEL)
    is_wide = kernel is not None and len(kernel) != loaded.config.hidden_dim
    if loaded.settings.get("feature_layers") or (is_wide and not flags):
        flags.add("--feature_layers")
    return sorted(flags)


def refuse(loaded: Checkpoint, flags: list[str], target: str) -> None:
    """Raises a CheckpointError that names the flags that made the tagger."""
    raise CheckpointError(
        f"{target}: the head of a tagger is a Dense layer and a softmax in this format; it has no place for "
        f"{', '.join(flags)}, with which it has learnt. Fine-tune one without, or serve this one with `xmodels export_model`."
    )


def check_own(loaded: Checkpoint, target: str) -> None:
    """Raises a CheckpointError where a model folder of ours, which has no task.json, would not say what states a tagger reads."""
    if layers := loaded.settings.get("feature_layers"):
        raise CheckpointError(
            f"{target}: a model folder does not say that a tagger reads --feature_layers={','.join(map(str, layers))}. Copy the "
            "folder of the run instead."
        )


def check_labels(loaded: Checkpoint, config_file: str) -> None:
    """Raises a CheckpointError where tags have no names, without which no span can be read from them."""
    if loaded.labels is None:
        raise CheckpointError(
            f"{config_file}: `id2label` must give each of the {len(loaded.values[BIAS])} tags a name of its own, such as O, B-PER and "
            "I-PER."
        )


HEAD = PublishedHead(
    kind=TOKENS,
    make=lambda config, num_classes, reading: Tag(config, range(num_classes), reading),
    logits=logits_of_tokens,
    check_labels=check_labels,
    own_flags=own_flags,
    refuse=refuse,
    check_own=check_own,
)
